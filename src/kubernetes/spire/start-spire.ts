// Starts the SPIRE operator when the setting turns it on and the site has a marked Cluster. With the setting off,
// nothing follows the store.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { ControllerHost } from '../../core/reconcile/controller.ts';
import { type StartedWork, startMarked } from '../marked/start-marked.ts';
import type { SpireSettings } from '../settings.ts';
import type { SpireCluster, SpireContext } from './spire-cluster.ts';

const off: StartedWork<SpireCluster> = { list: () => [], stop: () => Promise.resolve() };

export function startSpire(
  context: SpireContext,
  settings: SpireSettings,
  host: ControllerHost,
): StartedWork<SpireCluster> {
  if (!settings.isEnabled) return off;
  const { store, log, clock } = context;
  return startMarked({ mark: 'spire', store, log, host }, async () => {
    const { SpireCluster: Loaded } = await import('./spire-cluster.ts');
    const { spireController } = await import('../controllers/spire-controller.ts');
    const clusters = context.resources<Cluster>(clusterKind);
    return {
      open: (cluster, all) => {
        const spire: SpireCluster = new Loaded({
          context,
          settings,
          cluster,
          others: () => all().filter((each) => each !== spire),
        });
        return spire;
      },
      controllerOf: (spire) => spireController(spire, { clusters, clock }),
    };
  });
}
