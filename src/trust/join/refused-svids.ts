// Records that the site refused an older SVID of a member: someone may have copied its data folder. The
// record is apart from that of the member, so that an attacker cannot delay the renewals of the member.

import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { membersCollection, refusalsCollection } from './member-records.ts';

/** The newest refusal that was recorded. */
export interface RefusedSvid {
  readonly atMs: number;
  readonly serial: string;
  /** A clause, such as "generation 3 tried to renew, and generation 5 is the newest". */
  readonly why: string;
  /** Where the request came from; absent if unknown. */
  readonly address?: string;
}

const reader = recordReader<RefusedSvid>(refusalsCollection);

/** The audit log has all refusals. More records of one member would only cost commits. */
const recordEveryMs = 60_000;

export function refusedSvid(store: Pick<Store, 'get'>, instance: string): RefusedSvid | undefined {
  return reader.get(store, instance);
}

/**
 * Call it only for an SVID that this site issued to this member, and whose key the caller holds. Does
 * nothing if a refusal of this member was recorded within a minute, at any replica.
 */
export async function recordRefusedSvid(
  { store, clock }: { readonly store: Store; readonly clock: Pick<Clock, 'now'> },
  instance: string,
  refusal: Omit<RefusedSvid, 'atMs'>,
): Promise<void> {
  const atMs = clock.now();
  const kept = store.get(refusalsCollection, instance);
  const member = store.get(membersCollection, instance);
  if (member === undefined) return;
  // After a jump of the clock, a record from the future does not count.
  const elapsedMs = kept === undefined ? recordEveryMs : atMs - reader.of(kept).atMs;
  if (elapsedMs >= 0 && elapsedMs < recordEveryMs) return;
  const bytes = Buffer.from(JSON.stringify({ atMs, ...refusal } satisfies RefusedSvid));
  await commitFenced(store, {
    expect: [
      { collection: membersCollection, name: instance, at: member.revision },
      { collection: refusalsCollection, name: instance, at: kept?.revision ?? 'absent' },
    ],
    put: [{ collection: refusalsCollection, name: instance, encode: () => bytes }],
  }).catch((error: unknown) => {
    // Another replica recorded one, or the member changed. The next refusal is recorded.
    if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
  });
}
