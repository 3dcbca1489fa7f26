// Prepares an object for every write, from users and controllers: resets fields that only the site may
// set or that belong to the other subresource, and updates the generation. Pure.

import type { Kind } from '../../api/kind.ts';
import { timestamp } from '../../api/object.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { ObjectDraft, ObjectDraftMeta } from './object-of.ts';

function without(meta: ObjectDraftMeta, keys: readonly string[]): Record<string, unknown> {
  const rest: Record<string, unknown> = { ...meta };
  for (const key of keys) delete rest[key];
  return rest;
}

/** Fields that users may not set at creation. */
const systemFields = [
  'uid',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'selfLink',
  'generation',
];

export function wipeSystemFields(object: ObjectDraft): ObjectDraft {
  return { ...object, metadata: without(object.metadata, systemFields) };
}

export function prepareForCreate(
  kind: Kind,
  object: ObjectDraft,
  made: { uid: string; nowMs: number; name: string },
): ObjectDraft {
  const { status: _status, ...rest } = object;
  return {
    ...(kind.status === undefined ? object : rest),
    metadata: {
      ...object.metadata,
      name: made.name,
      uid: made.uid,
      creationTimestamp: timestamp(made.nowMs),
      generation: 1,
    },
  };
}

/** `next` is untrusted, and `live` is the stored object. */
export function prepareForUpdate(
  kind: Kind,
  subresource: 'status' | undefined,
  next: ObjectDraft,
  live: ObjectDraft,
): ObjectDraft {
  const content = subresource === 'status' ? onlyStatus(next, live) : keepStatus(kind, next, live);
  const changed = subresource === undefined && !sameContent(kind, content, live);
  const liveGeneration = live.metadata.generation ?? 1;
  const kept: Record<string, unknown> = {
    creationTimestamp: live.metadata.creationTimestamp,
    generation: changed ? liveGeneration + 1 : liveGeneration,
    uid:
      content.metadata.uid === undefined || content.metadata.uid === ''
        ? live.metadata.uid
        : content.metadata.uid,
  };
  if (live.metadata.deletionTimestamp !== undefined) {
    kept['deletionTimestamp'] = live.metadata.deletionTimestamp;
    kept['deletionGracePeriodSeconds'] = live.metadata.deletionGracePeriodSeconds ?? 0;
  }
  return { ...content, metadata: { ...content.metadata, ...kept } };
}

/** A write of `status` changes only the status and the field ownership. */
function onlyStatus(next: ObjectDraft, live: ObjectDraft): ObjectDraft {
  const metadata: Record<string, unknown> = { ...live.metadata };
  if (next.metadata.managedFields === undefined) delete metadata['managedFields'];
  else metadata['managedFields'] = next.metadata.managedFields;
  const { status: _status, ...rest } = live;
  return {
    ...rest,
    ...(next.status === undefined ? {} : { status: next.status }),
    metadata,
  };
}

function keepStatus(kind: Kind, next: ObjectDraft, live: ObjectDraft): ObjectDraft {
  if (kind.status === undefined) return next;
  const { status: _status, ...rest } = next;
  return { ...rest, ...(live.status === undefined ? {} : { status: live.status }) };
}

/** Whether everything except metadata and a status subresource is equal. */
function sameContent(kind: Kind, next: ObjectDraft, live: ObjectDraft): boolean {
  const ignored = new Set([
    'metadata',
    'apiVersion',
    'kind',
    ...(kind.status === undefined ? [] : ['status']),
  ]);
  const keys = new Set(
    [...Object.keys(next), ...Object.keys(live)].filter((key) => !ignored.has(key)),
  );
  for (const key of keys) if (!jsonEquals(next[key], live[key])) return false;
  return true;
}

/** Marks for deletion. The object is deleted with its last finalizer. */
export function markDeleted(live: ObjectDraft, nowMs: number): ObjectDraft {
  return {
    ...live,
    metadata: {
      ...live.metadata,
      deletionTimestamp: timestamp(nowMs),
      deletionGracePeriodSeconds: 0,
      generation: (live.metadata.generation ?? 1) + 1,
    },
  };
}

export function isDeletionDue(object: ObjectDraft): boolean {
  return (
    object.metadata.deletionTimestamp !== undefined &&
    (object.metadata.finalizers ?? []).length === 0
  );
}

/** The alphabet of kube-apiserver for generated names, without vowels and similar characters. */
const suffixAlphabet = 'bcdfghjklmnpqrstvwxz2456789';
const suffixLength = 5;
const maxGeneratedBase = 63 - suffixLength;

export function generateName(base: string, unit: () => number): string {
  let suffix = '';
  for (let at = 0; at < suffixLength; at += 1)
    suffix += suffixAlphabet.charAt(Math.floor(unit() * suffixAlphabet.length));
  return base.slice(0, maxGeneratedBase) + suffix;
}
