// The controller of the SPIRE server of one marked cluster: operates the server as its SpireServer says, and
// writes into the status of the Cluster whether the site can.

import { setCondition } from '../../core/reconcile/conditions.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import type { SpireCluster } from '../spire/spire-cluster.ts';
import { spireCondition } from '../spire/spire-condition.ts';
import { spireFinding } from '../spire/spire-summary.ts';
import { compareEveryMs } from '../spire/unwatched-objects.ts';
import { markedController, type MarkedController } from './marked-controller.ts';

export function spireController(
  spire: SpireCluster,
  parts: Pick<MarkedController, 'clusters' | 'clock'>,
): Controller {
  return {
    ...markedController({
      ...parts,
      mark: 'spire',
      name: 'spire',
      work: spire,
      reconcile: (key, run) => spire.reconcile(key, run),
      statusOf: ({ metadata, status }, nowMs) => {
        const update = {
          type: spireCondition,
          ...spireFinding(metadata.name, spire),
          observedGeneration: metadata.generation,
        };
        return { ...status, conditions: setCondition(status?.conditions, update, nowMs) };
      },
    }),
    // Objects that no watch covers, such as roles, are compared this often.
    resyncMs: compareEveryMs,
  };
}
