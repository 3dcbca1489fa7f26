// Removes the records and the replicas of federated policies from a member that left, in one term of its leader.
// Policies of users stay.

import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { FencedWriter } from '../fencing/fenced-writer.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import { pathOfRecord } from '../policies/policy-records.ts';
import { findRecords, findReplicas } from './find-replicas.ts';
import type { FarewellTerm } from './remove-own-copies.ts';

/** Each round finds what changed during the one before. The next attempt finds the rest. */
const rounds = 2;

export async function removeOwnPolicies(
  { client, ...term }: FarewellTerm,
  kinds: readonly PolicyKind[],
): Promise<void> {
  const { signal } = term;
  const writer = new FencedWriter(client, term);
  const attempt = async (work: () => Promise<unknown>): Promise<void> => {
    signal.throwIfAborted();
    try {
      await work();
    } catch (error) {
      const isRace = error instanceof KubeStatusError && [404, 409].includes(error.status);
      if (!isRace) throw error;
    }
  };
  for (let round = 1; round <= rounds; round++) {
    // A policy that is absent while its record is there would count as deleted by a user.
    for (const record of await findRecords(client)) {
      await attempt(() => writer.remove(pathOfRecord(record.metadata.name), record));
    }
    const { replicas } = await findReplicas(client, kinds);
    if (replicas.length === 0) return;
    for (const { path, ...object } of replicas) await attempt(() => writer.remove(path, object));
  }
}
