// The time that the answers of one cluster may take of the main thread, for all that read its collections.

import type { Clock } from '../clock/clock.ts';
import { WorkTime } from '../limits/turns.ts';
import type { KubeClient } from './kube-client.ts';

const known = new WeakMap<Pick<KubeClient, 'request'>, WorkTime>();

/** One for each client, and so for each cluster. */
export function timeOf(client: Pick<KubeClient, 'request'>, clock: Clock): WorkTime {
  const found = known.get(client) ?? new WorkTime(clock);
  known.set(client, found);
  return found;
}
