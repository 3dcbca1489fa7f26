// The route that tells commands the state of the SPIRE servers that this process operates. It contains no secret.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import type { SpireInfo } from '../client/spire-info.ts';
import { kubernetesPaths } from '../paths.ts';
import type { SpireCluster } from '../spire/spire-cluster.ts';

type Shown = Pick<SpireCluster, 'cluster' | 'failure' | 'isFollowed' | 'server'>;

export function spireRoute(list: () => readonly Shown[]): PlaneRoute {
  return route({
    listener: 'api',
    method: 'GET',
    path: kubernetesPaths.spire,
    allow: 'rights',
    rights: [{ verb: 'list', kind: clusterKind }],
    handle: () => ({
      status: 200,
      contentType: 'application/json',
      body: JSON.stringify({ servers: list().map(infoOf) }),
    }),
  });
}

export function infoOf({ cluster, failure, isFollowed, server }: Shown): SpireInfo {
  const problem =
    failure?.message ??
    (isFollowed
      ? server === undefined
        ? 'The cluster has no SpireServer of this class.'
        : undefined
      : 'The site has not read the SpireServer yet, or another replica does.');
  return {
    cluster: cluster.metadata.name,
    ...(server !== undefined && server.trustDomain !== '' && { trustDomain: server.trustDomain }),
    ...(problem !== undefined && { problem }),
    ...(server?.reported?.spireVersion !== undefined && {
      spireVersion: server.reported.spireVersion,
    }),
    ...(server?.by !== undefined && { by: server.by }),
    conditions: (server?.conditions ?? []).map(({ type, status, reason, message }) => ({
      type,
      status,
      reason,
      message,
    })),
    relationships: server?.relationships ?? [],
  };
}
