// Shared helpers of the conformance suite: a place where a store can be reopened, and short forms of
// commits.

import assert from 'node:assert/strict';
import { test as register } from 'node:test';
import type { Clock } from '../../clock/clock.ts';
import type { ErrorCode } from '../../errors/error.ts';
import { hasCode } from '../../errors/error.ts';
import type { Log } from '../../log/log.ts';
import type { HistoryLimits } from '../current/history.ts';
import type { AuditRow, Change, Put, Store, Watcher } from '../store.ts';

export interface PlaceOptions {
  readonly clock?: Clock;
  readonly log?: Log;
  readonly history?: Partial<HistoryLimits>;
}

/** One place on disk, or a substitute in memory. */
export interface Place {
  /** Opens a store there; the one before must be closed, unless the driver has replicas. */
  open(options?: PlaceOptions): Promise<Store>;
  /** Removes the place. The stores opened there are closed already. */
  remove(): Promise<void>;
}

export type MakePlace = () => Promise<Place>;

/** Declares one test. The runner awaits it, so callers need not. */
export function test(name: string, body: () => Promise<void>): void {
  void register(name, body);
}

/** Runs `body` with a store in a place of its own, and cleans up whatever happens. */
export async function withStore(
  makePlace: MakePlace,
  body: (store: Store, place: Place) => Promise<void>,
  options: PlaceOptions = {},
): Promise<void> {
  const place = await makePlace();
  try {
    const store = await place.open(options);
    try {
      await body(store, place);
    } finally {
      await store.close();
    }
  } finally {
    await place.remove();
  }
}

export function put(collection: string, name: string, value: string | Buffer = name): Put {
  return { collection, name, encode: () => Buffer.from(value) };
}

export function audit(body: string): AuditRow {
  return { encode: () => Buffer.from(body) };
}

export function withErrorCode(code: ErrorCode): (error: unknown) => boolean {
  return (error) => {
    assert.ok(hasCode(error, code), `expected ${code}, got ${String(error)}`);
    return true;
  };
}

/** Records all calls of a watcher. */
export class Recorder implements Watcher {
  readonly calls: (readonly Change[])[] = [];
  readonly ends: string[] = [];

  changes(changes: readonly Change[]): void {
    this.calls.push(changes);
  }

  ended(error: { readonly code: string }): void {
    this.ends.push(error.code);
  }

  get revisions(): number[] {
    return this.calls.flat().map((change) => change.revision);
  }
}

/** Lets microtasks run: a watch starts in one. */
export async function turn(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}
