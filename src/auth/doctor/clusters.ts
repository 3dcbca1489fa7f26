// The check of `hansa doctor` for all clusters together. It reads their conditions and calls no cluster:
// `hansa doctor --cluster` does.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { printable } from '../../core/command/columns.ts';
import { type Finding, ok, problem, type SiteCheck, warning } from '../../core/plane/doctor.ts';
import { isReady, troubleOf } from '../status.ts';

const check = 'clusters';
/** More would hide the other findings; `hansa cluster list` has them all. */
const maxTold = 5;

export const clustersCheck: SiteCheck = {
  name: check,
  follows: 'agents',
  run: async ({ client, running }) => {
    if (!running) return [];
    const { items } = await client.list(clusterKind);
    return judgeClusters(items as unknown as readonly Cluster[]);
  },
};

/** A site without clusters has nothing to say about them. Only reviews that fail now are a problem. */
export function judgeClusters(clusters: readonly Cluster[]): readonly Finding[] {
  if (clusters.length === 0) return [];
  const troubled = clusters
    .flatMap((cluster) => troubleOf(cluster) ?? [])
    .toSorted((a, b) => Number(b.condition === 'Ready') - Number(a.condition === 'Ready'));
  if (troubled.length === 0) {
    const ready = clusters.filter(isReady).length;
    return [
      ok(
        check,
        ready === clusters.length ? `${ready} ready` : `${ready} of ${clusters.length} ready`,
      ),
    ];
  }
  const more = troubled.length - maxTold;
  return [
    ...troubled.slice(0, maxTold).map(({ name, condition, state, why }) => {
      const level = condition === 'Ready' ? problem : warning;
      const text =
        condition === 'Ready' ? `${name} is not ready` : `${name}: ${condition} is ${state}`;
      return level(
        check,
        printable(text),
        printable(`${why} For every step: hansa doctor --cluster ${name}`),
      );
    }),
    ...(more > 0
      ? [warning(check, `and ${more} more`, 'hansa cluster list lists all of them.')]
      : []),
  ];
}
