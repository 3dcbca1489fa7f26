// The controller of the SPIRE server of one marked cluster: operates the server as its SpireServer says, and
// writes into the status of the Cluster whether the site can.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { setCondition } from '../../core/reconcile/conditions.ts';
import type { Controller, ReconcileResult } from '../../core/reconcile/controller.ts';
import type { ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import { changeSource } from '../../core/reconcile/source.ts';
import type { SpireCluster } from '../spire/spire-cluster.ts';
import { spireCondition } from '../spire/spire-condition.ts';
import { compareEveryMs } from '../spire/unwatched-objects.ts';
import { spireFinding } from '../spire/spire-summary.ts';

const controllerName = 'spire';
/** The key of the status of the Cluster. Other keys are names of SpireServers. */
const statusKey = '';
/** Between two writes of the status. Users of the cluster decide how often it changes. */
const pauseMs = 10_000;
/** The first write soon after the start, when the SpireServer is read. */
const firstPauseMs = 500;
/** Objects that no watch covers, such as roles, are compared this often. */
const resyncMs = compareEveryMs;

export interface SpireControllerOptions {
  readonly spire: SpireCluster;
  readonly clusters: ResourceClient<Cluster>;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

export function spireController({ spire, clusters, clock }: SpireControllerOptions): Controller {
  const { name, uid } = spire.cluster.metadata;
  const lease = `controller.${controllerName}.${name}`;
  let nextMs = clock.monotonic() + firstPauseMs;

  const writeStatus = async (as: WriteAs): Promise<ReconcileResult | undefined> => {
    const waitMs = nextMs - clock.monotonic();
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const before = clock.monotonic();
    let isWritten = false;
    await clusters.patchStatus(
      name,
      (current) => {
        const { metadata, spec, status } = current;
        if (metadata.uid !== uid || spec.spire === undefined) return status ?? {};
        const update = {
          type: spireCondition,
          ...spireFinding(name, spire),
          observedGeneration: metadata.generation,
        };
        isWritten = true;
        return { ...status, conditions: setCondition(status?.conditions, update, clock.now()) };
      },
      as,
    );
    if (isWritten) nextMs = before + pauseMs;
    return undefined;
  };

  return {
    name: `${controllerName}-${name}`,
    lease,
    resyncMs,
    sources: [
      ...spire.sources(),
      changeSource((listener) => spire.onChange(listener), [statusKey]),
    ],
    reconcile: (key, run) => {
      if (key !== statusKey) return spire.reconcile(key, run);
      const { epoch } = run;
      return writeStatus({
        controller: controllerName,
        ...(epoch !== undefined && { fence: { lease, epoch } }),
      });
    },
  };
}
