// The routes that tell commands about federated policies: all of them in pages, and one by its key.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import { kubernetesPaths } from '../paths.ts';
import {
  findPolicy,
  listPolicies,
  type ListPoliciesOptions,
} from '../policies/view/list-policies.ts';
import { json, metadataOf, pageOf } from './pages.ts';

export interface PoliciesRoutesOptions extends Pick<ListPoliciesOptions, 'settings' | 'dnsPrefix'> {
  /** Undefined where this site supervises no cluster set. */
  readonly members: () => ListPoliciesOptions['members'] | undefined;
  readonly clock: Clock;
}

export function policiesRoutes(options: PoliciesRoutesOptions): readonly PlaneRoute[] {
  const { members, clock, settings, dnsPrefix } = options;
  const listOptions = (): ListPoliciesOptions => ({
    members: members() ?? { list: () => [] },
    settings,
    dnsPrefix,
    now: { nowMs: clock.now(), monotonicMs: clock.monotonic() },
  });
  const rights = [{ verb: 'list', kind: clusterKind }] as const;
  return [
    route({
      listener: 'api',
      method: 'GET',
      path: kubernetesPaths.policies,
      allow: 'rights',
      rights,
      handle: ({ query }) => {
        const name = query.get('name') ?? undefined;
        const page = pageOf(query, 'policies');
        const asked = { ...page, ...(name !== undefined && { name }) };
        const { policies, last } = listPolicies(listOptions(), asked);
        return json({ policies, metadata: metadataOf(last) });
      },
    }),
    route({
      listener: 'api',
      method: 'GET',
      path: kubernetesPaths.policy,
      allow: 'rights',
      rights,
      handle: ({ params: { key } }) => {
        const found = findPolicy(key, listOptions());
        if (found !== undefined) return json(found);
        throw new HansaError(
          'HANSA_NOT_FOUND',
          `There is no federated policy ${JSON.stringify(excerpt(key))}. List them with hansa policy list.`,
        );
      },
    }),
  ];
}
