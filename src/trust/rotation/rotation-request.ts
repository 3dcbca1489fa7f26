// The request of an operator for a rotation, and its outcome: one record in the store per kind of
// authority. The rotation controller reads it, also after a restart.

import { commitFenced } from '../../core/lease/current-fence.ts';
import type { AuthorityKind } from '../../core/identity/authority/phases.ts';
import { hasCode } from '../../core/errors/error.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

/** The rotation controller watches it. */
export const rotationCollection = 'trust.rotation';

export interface RotationRecord {
  /** The prepared authority to activate as soon as it is safe, and who requested it. */
  readonly requested?: { readonly id: string; readonly by: string; readonly atMs: number };
  /** The last activation that did not wait (any longer), and who may not have held the new authority. */
  readonly unconfirmed?: { readonly id: string; readonly peers: readonly string[] };
}

const records = recordReader<RotationRecord>(rotationCollection);

export function rotationRecord(store: Pick<Store, 'get'>, kind: AuthorityKind): RotationRecord {
  return records.get(store, kind) ?? {};
}

/** Replaces the given fields of the record. */
export async function noteRotation(
  store: Pick<Store, 'get' | 'commit'>,
  kind: AuthorityKind,
  change: RotationRecord,
): Promise<void> {
  for (;;) {
    const entry = store.get(rotationCollection, kind);
    const next = { ...rotationRecord(store, kind), ...change };
    try {
      await commitFenced(store, {
        expect: [{ collection: rotationCollection, name: kind, at: entry?.revision ?? 'absent' }],
        put: [
          {
            collection: rotationCollection,
            name: kind,
            encode: () => Buffer.from(JSON.stringify(next)),
          },
        ],
      });
      return;
    } catch (error) {
      if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
    }
  }
}
