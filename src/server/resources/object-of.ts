// Conversion between stored bytes and objects. An entry is parsed once, on first use.

import type { Json, ManagedFieldsEntry } from '../../api/object.ts';
import { valueOf } from '../../core/store/reader.ts';
import type { Entry } from '../../core/store/store.ts';

/** Untrusted metadata: every field is optional. */
export type ObjectDraftMeta = {
  readonly name?: string;
  readonly generateName?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly managedFields?: readonly ManagedFieldsEntry[];
  readonly [key: string]: unknown;
};

/** An object with a checked envelope: `metadata` is an object, the rest is unchecked. */
export type ObjectDraft = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectDraftMeta;
  readonly spec?: Json;
  readonly status?: Json;
  readonly [key: string]: unknown;
};

/** Do not modify the result: all readers of the entry share it. */
export function objectOf(entry: Entry): ObjectDraft {
  return valueOf(entry) as ObjectDraft;
}

/** The bytes of an object at a revision. The store keeps the bytes that go over the wire. */
export function encodeObject(object: ObjectDraft, revision: number): Buffer {
  return Buffer.from(JSON.stringify(withRevision(object, revision)), 'utf8');
}

export function withRevision(object: ObjectDraft, revision: number): ObjectDraft {
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
}
