// Objects as stored: bytes in the store, parsed once when somebody needs the fields.

import type { Json, ManagedFieldsEntry } from '../../api/object.ts';
import { valueOf } from '../../core/store/reader.ts';
import type { Entry } from '../../core/store/store.ts';

/** Metadata as it may come from outside: every field still optional. */
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
  readonly finalizers?: readonly string[];
  readonly managedFields?: readonly ManagedFieldsEntry[];
  readonly [key: string]: unknown;
};

/** An object whose envelope was checked: `metadata` is an object, the rest is as it came. */
export type ObjectDraft = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectDraftMeta;
  readonly spec?: Json;
  readonly status?: Json;
  readonly [key: string]: unknown;
};

/** Must not be written to: it is shared by everybody who reads this entry. */
export function objectOf(entry: Entry): ObjectDraft {
  return valueOf(entry) as ObjectDraft;
}

/** The bytes of an object at a revision: what the store keeps is what goes over the wire. */
export function encodeObject(object: ObjectDraft, revision: number): Buffer {
  return Buffer.from(JSON.stringify(withRevision(object, revision)), 'utf8');
}

export function withRevision(object: ObjectDraft, revision: number): ObjectDraft {
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
}
