// Test fixture: one policy in members, with usual values for what a test does not say.

import type { CompileInput } from './compile-policy.ts';
import type { HeldObject, HeldRecord, PolicyView, TargetView } from './policy-state.ts';
import { emptyRecord } from './policy-version.ts';
import type { Stamp } from './stamp.ts';

/** 2027-01-15T08:00:00Z. */
export const nowMs = 1_800_000_000_000;
export const retentionMs = 168 * 3_600_000;

/** So many seconds before now. */
export const ago = (seconds: number, clusterID = 'a', counter = 0): Stamp => ({
  timeMs: nowMs - seconds * 1000,
  counter,
  clusterID,
});

/** A policy of a user with the content `v1`, of a minute ago. */
export const object = (over: Partial<HeldObject> = {}): HeldObject => ({
  uid: 'uid',
  resourceVersion: '10',
  isFederated: true,
  hash: 'v1',
  isReplica: false,
  written: undefined,
  userMs: nowMs - 60_000,
  siteMs: undefined,
  createdMs: nowMs - 60_000,
  isAnswer: false,
  isTerminating: false,
  ...over,
});

/** One that a site wrote with this version. */
export const replica = (stamp: Stamp, hash: string, over: Partial<HeldObject> = {}): HeldObject =>
  object({
    isReplica: true,
    hash,
    written: { stamp, versionHash: hash },
    userMs: undefined,
    siteMs: nowMs - 30_000,
    ...over,
  });

/** A record of `object()`. */
export const record = (over: Partial<HeldRecord> = {}): HeldRecord => ({
  ...emptyRecord,
  state: 'Live',
  stamp: ago(60),
  versionHash: 'v1',
  storedHash: over.versionHash ?? 'v1',
  objectUID: 'uid',
  objectVersion: '10',
  namespaceUID: 'ns',
  crdUID: 'crd',
  ...over,
});

export const view = (clusterID: string, over: Partial<PolicyView> = {}): PolicyView => ({
  clusterID,
  isReady: true,
  isUsable: true,
  isOrigin: true,
  syncedMs: nowMs,
  object: undefined,
  record: undefined,
  ...over,
});

export const target = (over: Partial<TargetView> = {}): TargetView => ({
  ...view('a'),
  place: { isServed: true, crdUID: 'crd', namespace: 'open', namespaceUID: 'ns' },
  isFresh: false,
  isWritten: false,
  sighting: undefined,
  refusal: undefined,
  ...over,
});

export const input = (
  own: Partial<TargetView>,
  ...others: readonly PolicyView[]
): CompileInput => ({ target: target(own), others, nowMs, retentionMs });
