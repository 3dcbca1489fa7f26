// Removes the replicas of federated policies from a cluster that leaves, and the marks of sites on policies of users,
// with the credential of the user. Records go with their CRD.

import type { Clock } from '../../core/clock/clock.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { policyMarks, type Replicas } from '../leaving/find-replicas.ts';
import { orMissing } from './cluster-facts.ts';
import { whilePoliciesEnd } from './wait-for-policies.ts';

/** One that changed meanwhile stays: a supervisor or a user writes it. Returns how many stayed. */
export async function removeReplicas(kube: KubeClient, { replicas }: Replicas): Promise<number> {
  let left = 0;
  for (const { path, metadata } of replicas) {
    const { uid, resourceVersion } = metadata;
    try {
      await orMissing(() => kube.delete(path, { uid, resourceVersion }));
    } catch (error) {
      if (!(error instanceof KubeStatusError) || error.status !== 409) throw error;
      left++;
    }
  }
  return left;
}

export async function removePolicyMarks(
  kube: KubeClient,
  clock: Clock,
  { marked }: Replicas,
): Promise<void> {
  const annotations = Object.fromEntries(policyMarks.map((key) => [key, null]));
  for (const { path } of marked) {
    await whilePoliciesEnd(clock, () =>
      orMissing(() => kube.patch(path, { metadata: { annotations } })),
    );
  }
}
