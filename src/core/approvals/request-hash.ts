// The hash that binds an Approval to what will be done: action, verb, target, requester and change. Pure.

import { createHash } from 'node:crypto';

export interface ApprovalTarget {
  readonly kind: string;
  readonly name: string;
  /** Of the live object. Absent if there is none. */
  readonly uid?: string;
  readonly generation?: number;
}

/** Everything that an Approval allows, and nothing else. */
export interface HashedRequest {
  readonly action: string;
  readonly verb: string;
  readonly target: ApprovalTarget;
  /** The user who asked. */
  readonly requester: string;
  /** Canonical JSON. */
  readonly change: string;
}

/** A label, so that no other use of SHA-256 in the site can yield the same input. */
const label = 'hansa approval 1';

export function hashOf({ action, verb, target, requester, change }: HashedRequest): string {
  const { kind, name, uid = null, generation = null } = target;
  // A JSON array of fixed length is unambiguous: no field can run into the next.
  const fields = [label, action, verb, kind, name, uid, generation, requester, change];
  return createHash('sha256').update(JSON.stringify(fields)).digest('hex');
}

/** JSON with sorted keys, so that equal values have equal texts. Drops undefined, as JSON does. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
