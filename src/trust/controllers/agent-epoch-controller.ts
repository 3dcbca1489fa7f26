// Records the epoch of the lease of the agents. It grows with every new holder, so an agent can tell a
// site that took over from one that was left behind.

import type { PlaneContext } from '../../core/plane/plane.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { changeSource } from '../../core/reconcile/source.ts';
import { agentEpoch, agentsLease, epochCollection, epochName } from '../agents/agent-epoch.ts';

export function agentEpochController({ store }: Pick<PlaneContext, 'store'>): Controller {
  return {
    name: 'agent-epoch',
    lease: agentsLease,
    sources: [changeSource(() => () => undefined, [epochName])],
    reconcile: async (name, { epoch }) => {
      if (epoch === undefined || epoch <= agentEpoch(store)) return undefined;
      const bytes = Buffer.from(JSON.stringify({ epoch }));
      await store.commit({
        put: [{ collection: epochCollection, name, encode: () => bytes }],
        fence: { lease: agentsLease, epoch },
      });
      return undefined;
    },
  };
}
