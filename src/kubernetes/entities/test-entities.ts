// Test fixture: clusters in memory that serve ExternalEntities, as with Antrea, and a federated Service in them.

import type { Resource } from '../../../test/fakes/memory-kube/resource.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { copiesPart } from '../copies/copies-part.ts';
import type { MemberPacer } from '../copies/member-pacer.ts';
import { type MemoryCluster, MemoryLeague, systemNamespace } from '../league/test-memory-league.ts';
import type { MemberSettings } from '../members/member.ts';
import { copyAnnotation, originKey, serviceNameLabel } from '../names.ts';
import type { Service } from '../objects.ts';
import { type ExternalEntity, externalEntityKind } from './compile-external-entities.ts';
import { entitiesPart } from './entities-part.ts';

export const entityResource: Resource = {
  ...externalEntityKind,
  isNamespaced: true,
  hasStatus: false,
  isCustom: true,
  isNewGeneration: (object, old) => !jsonEquals(object['spec'], old['spec']),
};

export interface EntityLeagueOptions {
  /** Whether the clusters have Antrea. Default: yes. */
  readonly isServed?: boolean;
  readonly member?: (id: string) => Partial<MemberSettings>;
  readonly lookUp?: (name: string) => Promise<readonly string[]>;
  /** Of ExternalEntities alone. */
  readonly pacer?: Pick<MemberPacer, 'join'>;
  /** The part for ExternalEntities looks at all members. */
  readonly looked?: () => void;
}

/** The clusters north, south and west, with addresses in 10.1.0.0/16, 10.2.0.0/16 and 10.3.0.0/16. */
export class EntityLeague extends MemoryLeague {
  constructor({ isServed = true, member, lookUp, pacer, looked }: EntityLeagueOptions = {}) {
    super({
      ids: ['north', 'south', 'west'],
      parts: (given) => {
        const options = lookUp === undefined ? given : { ...given, lookUp };
        const { members } = given;
        const watched = {
          get: members.get.bind(members),
          onChange: members.onChange.bind(members),
          list: () => {
            looked?.();
            return members.list();
          },
        };
        return [copiesPart(options), entitiesPart({ ...options, members: watched, pacer })];
      },
      settings: (id, index) => ({
        routable: true,
        endpointPrefixes: [`10.${index + 1}.0.0/16`],
        ...member?.(id),
      }),
      resources: isServed ? [entityResource] : [],
    });
  }

  get north(): MemoryCluster {
    return this.cluster('north');
  }

  get south(): MemoryCluster {
    return this.cluster('south');
  }

  get west(): MemoryCluster {
    return this.cluster('west');
  }
}

export const entitiesIn = (cluster: MemoryCluster): readonly (ExternalEntity & object)[] =>
  cluster.all<ExternalEntity>(externalEntityKind.plural);

/** As `web south 10.2.0.1`, sorted. */
export function addressesIn(cluster: MemoryCluster): readonly string[] {
  return entitiesIn(cluster)
    .flatMap(({ metadata: { labels = {} }, spec }) =>
      (spec.endpoints ?? []).map(
        ({ ip }) => `${labels[copyAnnotation] ?? '-'} ${labels[originKey] ?? '-'} ${ip}`,
      ),
    )
    .toSorted();
}

/** A member shop/web of the global federated Service web, and its pods. */
export async function putWeb(
  cluster: MemoryCluster,
  pods: readonly string[],
  spec: Partial<Service['spec']> = {},
): Promise<void> {
  await cluster.apply('services', {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: 'web',
      namespace: 'shop',
      annotations: { 'svc.global.federated.hansa.dev': 'web' },
    },
    spec: { ports: [{ name: 'http', port: 80, protocol: 'TCP' }], ...spec },
  });
  await putPods(cluster, pods);
}

export async function putPods(cluster: MemoryCluster, pods: readonly string[]): Promise<void> {
  await cluster.apply('endpointslices', {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-pods', namespace: 'shop', labels: { [serviceNameLabel]: 'web' } },
    addressType: 'IPv4',
    endpoints: pods.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  });
}

/** The namespace of the copy of web. */
export const copyNamespace = systemNamespace;
