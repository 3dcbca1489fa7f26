// The routes that tell commands about federated Services: all of them in pages, and one by its key.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import { annotatedCopies } from '../copies/annotated-copies.ts';
import { findService, type ListOptions, listServices } from '../copies/list-services.ts';
import type { SyncedMembers } from '../copies/synced-member.ts';
import { exportedServices } from '../mcs/exported-services.ts';
import { kubernetesPaths } from '../paths.ts';
import { json, metadataOf, pageOf } from './pages.ts';

export interface ServicesRoutesOptions {
  /** Undefined where this site supervises no cluster set. */
  readonly members: () => Pick<SyncedMembers, 'list'> | undefined;
  /** The system namespace. */
  readonly namespace: string;
  /** Of the annotations for ExternalDNS. */
  readonly dnsPrefix: string;
  /** Whether this site exports Services by ServiceExports. */
  readonly hasExports: boolean;
  readonly clock: Clock;
}

export function servicesRoutes(options: ServicesRoutesOptions): readonly PlaneRoute[] {
  const { namespace, hasExports } = options;
  const rules = [annotatedCopies(namespace), ...(hasExports ? [exportedServices()] : [])];
  const listOptions = (): ListOptions => ({
    rules,
    members: options.members() ?? { list: () => [] },
    namespace,
    dnsPrefix: options.dnsPrefix,
    monotonicMs: options.clock.monotonic(),
  });
  return [
    route({
      listener: 'api',
      method: 'GET',
      path: kubernetesPaths.services,
      allow: 'rights',
      rights: [{ verb: 'list', kind: clusterKind }],
      handle: ({ query }) => {
        const { services, last } = listServices(listOptions(), pageOf(query, 'Services'));
        return json({ services, metadata: metadataOf(last) });
      },
    }),
    route({
      listener: 'api',
      method: 'GET',
      path: kubernetesPaths.service,
      allow: 'rights',
      rights: [{ verb: 'list', kind: clusterKind }],
      handle: ({ params: { key } }) => {
        const found = findService(key, listOptions());
        if (found !== undefined) return json(found);
        throw new HansaError(
          'HANSA_NOT_FOUND',
          `There is no federated Service ${JSON.stringify(excerpt(key))}. List them with hansa service list.`,
        );
      },
    }),
  ];
}
