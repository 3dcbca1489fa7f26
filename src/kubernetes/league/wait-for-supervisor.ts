// Waits until the home cluster claims to be a supervisor. A site whose local cluster has no CRDs of ours costs
// one request every half minute.

import { clusterClaimKind } from '../../api/kinds/cluster-claim.ts';
import { clustersGroup } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { type Clock, type Random, sleep } from '../../core/clock/clock.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { Log } from '../../core/log/log.ts';
import { identityOf, type ReflectedClaim, readClaim } from '../members/identity.ts';

export interface WaitForSupervisorOptions {
  readonly home: KubeClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** For the status: why it does not lead yet. */
  readonly waiting: (why: string) => void;
}

/** The first attempts come soon: a new cluster often has its credential a moment later. */
const firstMs = 1000;
const intervalMs = 30_000;
const jitter = 0.2;
const path = `/apis/${clustersGroup}/${version}/${clusterClaimKind.plural}`;

/** Rejects with the reason of the signal only. */
export async function waitForSupervisor(options: WaitForSupervisorOptions): Promise<void> {
  const { home, clock, random, log, signal, waiting } = options;
  for (let delayMs = firstMs; ; delayMs = Math.min(delayMs * 2, intervalMs)) {
    try {
      const claims = await home.list<ReflectedClaim>(path);
      signal.throwIfAborted();
      if (identityOf(claims.map(readClaim)).isSupervisor) return;
      waiting('The local cluster does not claim to be a supervisor.');
    } catch (error) {
      signal.throwIfAborted();
      waiting(whyNot(error));
      log.debug('cannot read the claims of the local cluster', { error });
    }
    await sleep(clock, delayMs * (1 - jitter * random.unit()), signal);
  }
}

function whyNot(error: unknown): string {
  const status = error instanceof KubeStatusError ? error.status : 0;
  if (status === 404) return 'The local cluster has no CRDs of Hansa.';
  if (status === 403)
    return 'The credential of this site may not read claims of the local cluster.';
  return error instanceof Error ? error.message : String(error);
}
