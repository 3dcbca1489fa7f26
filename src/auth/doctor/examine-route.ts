// The route behind `hansa doctor --cluster` and `hansa cluster check`.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { fewAtOnce } from '../../core/limits/few-at-once.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import type { ClusterDirectory } from '../clusters/reviewed-cluster.ts';
import { authError } from '../errors.ts';
import { authPaths } from '../paths.ts';
import type { ExaminedCluster } from './examine-access.ts';
import { examineCluster, type ExamineParts } from './examine-cluster.ts';

/** An operator examines one cluster at a time, for up to half a minute. */
const atOnce = 4;

const clusters = kindReader(clusterKind);

export interface ExamineRouteParts extends ExamineParts {
  readonly store: Pick<Store, 'get'>;
  readonly clusters: Pick<ClusterDirectory, 'find'>;
  readonly credentialsOf: (cluster: Cluster) => ExaminedCluster['credentials'];
}

export function examineRoute(parts: ExamineRouteParts): PlaneRoute {
  const limited = fewAtOnce(atOnce, `examining ${atOnce} clusters`);
  return route({
    listener: 'api',
    method: 'POST',
    path: authPaths.examine,
    allow: 'rights',
    // It uses the credential of the cluster, so reading the Cluster is not enough.
    rights: [{ verb: 'update', kind: clusterKind, nameFrom: 'name' }],
    handle: async ({ params: { name } }) => {
      const object = clusters.get(parts.store, name);
      const reviewed = parts.clusters.find(name);
      if (object === undefined || reviewed === undefined) {
        throw authError('HANSA_UNKNOWN_CLUSTER', `This site has no cluster ${name}.`);
      }
      const findings = await limited(() =>
        examineCluster(parts, { object, reviewed, credentials: parts.credentialsOf(object) }),
      );
      const body = JSON.stringify({ findings });
      return { status: 200, contentType: 'application/json', body };
    },
  });
}
