// The route by which `hansa cluster leave` says that it removes the copies itself, so that the site stops to try.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { requestedBy } from '../../core/access/audit-draft.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { requesterOf } from '../../core/plane/requester.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import { MemberRecords } from '../leaving/member-records.ts';
import { kubernetesPaths } from '../paths.ts';

export type LeavingRouteOptions = Pick<PlaneContext, 'store' | 'audit'>;

/** Succeeds also where the cluster is no longer leaving. A member that Federation lists stays. */
export function leavingRoute({ store, audit }: LeavingRouteOptions): PlaneRoute {
  const records = new MemberRecords(store);
  return route({
    listener: 'api',
    method: 'DELETE',
    path: kubernetesPaths.leaving,
    allow: 'rights',
    rights: [{ verb: 'delete', kind: clusterKind }],
    handle: async (request) => {
      const { id } = request.params;
      const record = records.get(id);
      const isForgotten =
        record?.leaving !== undefined &&
        (await records.forget(id, record, [
          audit.record({
            ...requestedBy(requesterOf(request)),
            verb: 'member.forget',
            kind: clusterKind.kind,
            name: id,
            outcome: 'allow',
            reason: `the site no longer removes copies from the cluster ${id}`,
          }),
        ]));
      const body = JSON.stringify({ clusterID: id, forgotten: isForgotten });
      return { status: 200, contentType: 'application/json', body };
    },
  });
}
