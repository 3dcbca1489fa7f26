// Test fixture: the settings of a site that gives no names, and a league of three clusters with names.

import { MemoryLeague, type MemoryCluster } from '../league/test-memory-league.ts';
import { copiesPart } from '../copies/copies-part.ts';
import type { MemberPacer } from '../copies/member-pacer.ts';
import type { MemberSettings } from '../members/member.ts';
import { defaultDnsPrefix, namedCondition, serviceNameLabel } from '../names.ts';
import type { Service } from '../objects.ts';
import type { NameSettings } from './asked-names.ts';
import { dnsPart } from './dns-part.ts';
import { HostnameTemplate } from './hostnames.ts';

export const noNames: NameSettings = {
  template: undefined,
  prefix: defaultDnsPrefix,
  whenUnhealthy: 'remove',
};

export const templated: NameSettings = {
  ...noNames,
  template: HostnameTemplate.parse('{name}.fed.example'),
};

export interface DnsLeagueOptions {
  readonly settings?: NameSettings;
  /** Clusters with `dns: true`. Default: north and south. */
  readonly marked?: readonly string[];
  readonly member?: (id: string) => Partial<MemberSettings>;
  readonly lookUp?: (name: string) => Promise<readonly string[]>;
  /** Of names alone. */
  readonly pacer?: Pick<MemberPacer, 'join'>;
}

/** The clusters north, south and west, with addresses in 10.1.0.0/16, 10.2.0.0/16 and 10.3.0.0/16. */
export class DnsLeague extends MemoryLeague {
  /** Of sites that start from now on. */
  settings: NameSettings;

  constructor(options: DnsLeagueOptions = {}) {
    const { settings = templated, marked = ['north', 'south'], member, lookUp, pacer } = options;
    super({
      ids: ['north', 'south', 'west'],
      parts: (given) => {
        const shared = lookUp === undefined ? given : { ...given, lookUp };
        return [copiesPart(shared), dnsPart({ ...shared, settings: this.settings, pacer })];
      },
      settings: (id, index) => ({
        endpointPrefixes: [`10.${index + 1}.0.0/16`],
        ...(marked.includes(id) && { dns: true }),
        ...member?.(id),
      }),
    });
    this.settings = settings;
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

  /** The names on the copies of all clusters, as `north shop.fed.example → 10.1.0.1`. */
  names(name = 'shop', namespace = 'hansa-system'): readonly string[] {
    return this.clusters.flatMap((cluster) => {
      const annotations = annotationsOf(cluster, name, namespace);
      const [hostname, target] = ['hostname', 'target'].map(
        (part) => annotations[`${this.settings.prefix}/${part}`],
      );
      return hostname === undefined && target === undefined
        ? []
        : [`${cluster.id} ${hostname ?? '-'} → ${target ?? '-'}`];
    });
  }
}

export function annotationsOf(
  cluster: MemoryCluster,
  name = 'shop',
  namespace = 'hansa-system',
): Readonly<Record<string, string>> {
  return cluster.find<Service>('services', `${namespace}/${name}`)?.metadata.annotations ?? {};
}

/** What a Service is told about its name, as `True Published`. */
export function toldIn(cluster: MemoryCluster, key = 'shop/shop'): string {
  const found = conditionIn(cluster, key);
  return found === undefined ? 'nothing' : `${found.status} ${found.reason}`;
}

export function conditionIn(cluster: MemoryCluster, key = 'shop/shop') {
  return cluster
    .find<Service>('services', key)
    ?.status?.conditions?.find(({ type }) => type === namedCondition);
}

export interface PutOptions {
  readonly name?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly federated?: string;
  readonly spec?: Partial<Service['spec']>;
  /** Of the ready pods. */
  readonly pods?: readonly string[];
  readonly notReady?: readonly string[];
}

/** A member of the global federated Service with the same name, and its pods. Returns its key. */
export async function putService(
  cluster: MemoryCluster,
  { name = 'shop', federated = name, annotations = {}, spec = {}, ...rest }: PutOptions = {},
): Promise<string> {
  await cluster.apply('services', {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace: 'shop',
      annotations: { 'svc.global.federated.hansa.dev': federated, ...annotations },
    },
    spec: { ports: [{ name: 'http', port: 80, protocol: 'TCP' }], ...spec },
  });
  await putPods(cluster, name, rest);
  return `shop/${name}`;
}

export async function putPods(
  cluster: MemoryCluster,
  name: string,
  { pods = ['172.16.0.1'], notReady = [] }: Pick<PutOptions, 'pods' | 'notReady'>,
): Promise<void> {
  const endpoint = (ready: boolean) => (address: string) => ({
    addresses: [address],
    conditions: { ready },
  });
  await cluster.apply('endpointslices', {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${name}-pods`, namespace: 'shop', labels: { [serviceNameLabel]: name } },
    addressType: 'IPv4',
    endpoints: [...pods.map(endpoint(true)), ...notReady.map(endpoint(false))],
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  });
}
