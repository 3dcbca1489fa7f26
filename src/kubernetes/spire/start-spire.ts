// Starts the SPIRE operator when the setting turns it on and the site has a marked Cluster. Until then, its code
// is not loaded, and with the setting off nothing follows the store.

import type { ControllerHost } from '../../core/reconcile/controller.ts';
import { followClusters } from '../league/find-home.ts';
import type { SpireSettings } from '../settings.ts';
import type { SpireCluster, SpireContext } from './spire-cluster.ts';
import type { SpireClusters } from './spire-clusters.ts';
import { findSpireMarked } from './spire-marks.ts';

export interface StartedSpire {
  /** The clusters that this process may operate. */
  list(): readonly SpireCluster[];
  stop(): Promise<void>;
}

const off: StartedSpire = { list: () => [], stop: () => Promise.resolve() };

export function startSpire(
  context: SpireContext,
  settings: SpireSettings,
  host: ControllerHost,
): StartedSpire {
  if (!settings.isEnabled) return off;
  let clusters: SpireClusters | undefined;
  let isStopped = false;
  let loading: Promise<void> | undefined;
  let silence = (): void => undefined;
  const load = async (): Promise<void> => {
    const { SpireClusters: Loaded } = await import('./spire-clusters.ts');
    if (!isStopped) clusters = new Loaded(context, settings, host);
  };
  const compare = (): void => {
    if (loading !== undefined || findSpireMarked(context.store).size === 0) return;
    silence();
    loading = load().catch((error: unknown) => {
      context.log.error('cannot start to operate SPIRE servers', { error });
    });
  };
  silence = followClusters(context.store, compare);
  compare();
  return {
    list: () => clusters?.list() ?? [],
    stop: async () => {
      isStopped = true;
      silence();
      await loading;
      await clusters?.stop();
    },
  };
}
