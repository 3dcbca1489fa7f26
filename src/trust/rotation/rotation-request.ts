// What an operator asked for and what became of it, one record for each kind of authority: whoever
// runs the rotation finds it in the store, also after a restart.

import type { AuthorityKind } from '../../core/identity/authority/phases.ts';
import { hasCode } from '../../core/errors/error.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

/** Watched by the rotation. */
export const rotationCollection = 'trust.rotation';

export interface RotationRecord {
  /** The prepared authority that is to be activated as soon as that harms nobody, and who asked. */
  readonly requested?: { readonly id: string; readonly by: string; readonly atMs: number };
  /** The last activation that did not wait (any longer), and who was not known to hold what signs since. */
  readonly unconfirmed?: { readonly id: string; readonly peers: readonly string[] };
}

const records = recordReader<RotationRecord>(rotationCollection);

export function rotationRecord(store: Pick<Store, 'get'>, kind: AuthorityKind): RotationRecord {
  return records.get(store, kind) ?? {};
}

/** What is given takes the place of what is there of it. */
export async function noteRotation(
  store: Pick<Store, 'get' | 'commit'>,
  kind: AuthorityKind,
  change: RotationRecord,
): Promise<void> {
  for (;;) {
    const entry = store.get(rotationCollection, kind);
    const next = { ...rotationRecord(store, kind), ...change };
    try {
      await store.commit({
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
