// Starts one kind of work when the site has a Cluster that is marked for it. Until then, the code of the work is not
// loaded.

import { followClusters } from '../league/find-home.ts';
import { MarkedClusters, type MarkedOptions, type MarkedWork } from './marked-clusters.ts';
import { findMarked } from './marks.ts';

export interface StartedWork<W> {
  /** On the Clusters that this process may work on. */
  list(): readonly W[];
  stop(): Promise<void>;
}

export function startMarked<W extends { close(): void }>(
  options: MarkedOptions,
  load: () => Promise<MarkedWork<W>>,
): StartedWork<W> {
  const { store, mark, log } = options;
  let marked: MarkedClusters<W> | undefined;
  let isStopped = false;
  let loading: Promise<void> | undefined;
  let silence = (): void => undefined;
  const start = async (): Promise<void> => {
    const work = await load();
    if (!isStopped) marked = new MarkedClusters(options, work);
  };
  const compare = (): void => {
    if (loading !== undefined || findMarked(store, mark).size === 0) return;
    silence();
    loading = start().catch((error: unknown) => {
      log.error('cannot start to work on marked clusters', { mark, error });
    });
  };
  silence = followClusters(store, compare);
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
