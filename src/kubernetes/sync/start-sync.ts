// Starts the sync when the site has a marked Cluster. Until then, its code is not loaded.

import type { ControllerHost } from '../../core/reconcile/controller.ts';
import { followClusters } from '../league/find-home.ts';
import type { ClusterSync, SyncContext } from './cluster-sync.ts';
import type { MarkedClusters } from './marked-clusters.ts';
import { findMarked } from './marks.ts';

export interface StartedSync {
  /** Of the clusters that this process may sync. */
  list(): readonly ClusterSync[];
  stop(): Promise<void>;
}

export function startSync(context: SyncContext, host: ControllerHost): StartedSync {
  let marked: MarkedClusters | undefined;
  let isStopped = false;
  let loading: Promise<void> | undefined;
  const load = async (): Promise<void> => {
    const { MarkedClusters: Loaded } = await import('./marked-clusters.ts');
    if (!isStopped) marked = new Loaded(context, host);
  };
  const compare = (): void => {
    if (loading !== undefined || findMarked(context.store).size === 0) return;
    silence();
    loading = load().catch((error: unknown) => {
      context.log.error('cannot start to sync objects of clusters', { error });
    });
  };
  let silence = (): void => undefined;
  silence = followClusters(context.store, compare);
  compare();
  return {
    list: () => marked?.list() ?? [],
    stop: async () => {
      isStopped = true;
      silence();
      await loading;
      await marked?.stop();
    },
  };
}
