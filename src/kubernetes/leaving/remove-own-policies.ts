// Removes the records and the replicas of federated policies from a member that left, in one term of its leader.
// Policies of users stay.

import { FencedWriter } from '../fencing/fenced-writer.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import { pathOfRecord } from '../policies/policy-records.ts';
import { type FarewellTerm, farewellRounds } from './farewell-rounds.ts';
import { findRecords, findReplicas, type Replicas } from './find-replicas.ts';

/** Rejects with HANSA_CONFLICT if replicas are left, and with 403 if some could not be read. Removes the others first. */
export async function removeOwnPolicies(
  { client, ...term }: FarewellTerm,
  kinds: readonly PolicyKind[],
): Promise<void> {
  const writer = new FencedWriter(client, term);
  let forbidden: Replicas['forbidden'];
  await farewellRounds(term.signal, 'Federated policies of other clusters', async (attempt) => {
    const records = await findRecords(client);
    // A policy that is absent while its record is there would count as deleted by a user.
    for (const record of records) {
      await attempt(() => writer.remove(pathOfRecord(record.metadata.name), record));
    }
    const found = await findReplicas(client, kinds);
    const { replicas } = found;
    forbidden = found.forbidden;
    for (const { path, ...object } of replicas) await attempt(() => writer.remove(path, object));
    return records.length === 0 && replicas.length === 0;
  });
  if (forbidden !== undefined) throw forbidden;
}
