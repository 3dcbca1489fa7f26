// Repeats a request that an admission policy refuses for a moment after the policy was deleted.

import { type Clock, sleep } from '../../core/clock/clock.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';

/** API servers see the deletion of a policy, or of its parameter, within a second or two. */
const tries = 40;
const pauseMs = 250;

export async function whilePoliciesEnd<T>(clock: Clock, request: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof KubeStatusError) || error.status !== 422 || attempt === tries) {
        throw error;
      }
      await sleep(clock, pauseMs);
    }
  }
}
