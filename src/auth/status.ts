// The part of `hansa status` about clusters.

import { type Cluster, clusterKind } from '../api/kinds/cluster.ts';
import { printable } from '../core/command/columns.ts';
import type { StatusPart } from '../core/plane/command-line.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { findCondition } from '../core/reconcile/conditions.ts';

/** More would hide the other parts of the status; `hansa cluster list` has them all. */
const maxTold = 5;
/** In order of importance. */
const watched = ['Ready', 'CredentialFresh', 'KeysFresh', 'Reachable'] as const;

export async function authStatus(client: SiteClient): Promise<StatusPart> {
  const { items } = await client.list(clusterKind);
  const clusters = items as unknown as readonly Cluster[];
  const ready = clusters.filter(isReady).length;
  const troubled = clusters.flatMap((cluster) => troubleOf(cluster) ?? []);
  const more = troubled.length - maxTold;
  return {
    fields: { clusters: { total: clusters.length, ready, troubled } },
    // A site without clusters has nothing to say about them.
    rows: clusters.length === 0 ? [] : [['clusters', `${clusters.length}, ${ready} ready`]],
    lines: [
      ...troubled
        .slice(0, maxTold)
        .map(({ name, condition, state, why }) =>
          printable(`cluster ${name}: ${condition} is ${state}. ${why}`),
        ),
      ...(more > 0 ? [`and ${more} more: hansa cluster list`] : []),
    ],
  };
}

export const isReady = (cluster: Cluster): boolean => stateOf(cluster, 'Ready') === 'True';

function stateOf({ status }: Cluster, type: string): string | undefined {
  return findCondition(status?.conditions, type)?.status;
}

export interface Trouble {
  readonly name: string;
  readonly condition: (typeof watched)[number];
  /** `SharedKeys` is the reason of a condition that is True: the keys work, but another cluster has them too. */
  readonly state: 'False' | 'SharedKeys';
  readonly why: string;
}

/** The most important condition that is False, or else the report of shared keys. */
export function troubleOf(cluster: Cluster): Trouble | undefined {
  const { name } = cluster.metadata;
  const found = (type: string) => findCondition(cluster.status?.conditions, type);
  const condition = watched.find((type) => found(type)?.status === 'False');
  if (condition !== undefined) {
    return { name, condition, state: 'False', why: found(condition)?.message ?? '' };
  }
  const keys = found('KeysFresh');
  if (keys?.reason !== 'SharedKeys') return undefined;
  return { name, condition: 'KeysFresh', state: 'SharedKeys', why: keys.message };
}
