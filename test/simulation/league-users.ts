// Users and controllers of a simulated cluster: they make, change and delete Services, endpoints and
// namespaces, and edit and delete the copies of the league.

import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { leaseName, serviceNameLabel } from '../../src/kubernetes/names.ts';
import type { EndpointSlice, Service } from '../../src/kubernetes/objects.ts';
import { isCopy } from '../../src/kubernetes/services/compile-copy.ts';
import type { MemoryKube } from '../fakes/memory-kube/memory-kube.ts';
import { isOwnSlice } from '../../src/kubernetes/services/slice-source.ts';
import { isVmService, isVmSlice } from '../../src/kubernetes/vms/vm-marks.ts';
import { systemNamespace } from './league-compiled.ts';

const namespaces = ['app', 'ops'];
const names = ['shop', 'web'];
const clusterSet = 'hanse';
const leagueVersion = 'clusters.hansa.dev/v1alpha1';

/** One cluster as its users see it. Their requests always arrive. */
export class LeagueUsers {
  readonly #cluster: MemoryKube;
  /** First two bytes of the addresses in this cluster. */
  readonly #range: string;
  readonly #act: (work: () => void) => void;

  /** `act` runs each change, so that it can be told from changes of supervisors. */
  constructor(cluster: MemoryKube, range: string, act: (work: () => void) => void) {
    this.#cluster = cluster;
    this.#range = range;
    this.#act = act;
  }

  /** With `members`, the cluster is a supervisor and lists them. */
  found(clusterID: string, members: readonly object[] | undefined): void {
    this.#act(() => {
      for (const name of [systemNamespace, ...namespaces]) this.#makeNamespace(name);
      for (const index of [1, 2]) this.#makeNode(index);
      this.#claim('id.k8s.io', clusterID);
      this.#claim('clusterSet.k8s.io', clusterSet);
      if (members === undefined) return;
      this.#claim('supervisor.hansa.dev', 'true');
      this.#send('POST', 'federations', '', undefined, {
        apiVersion: leagueVersion,
        kind: 'Federation',
        metadata: { name: 'federation' },
        spec: { clusterSet, members },
      });
    });
  }

  /** Something that users do every day. */
  change(random: SeededRandom): void {
    const namespace = random.pick(namespaces);
    const name = `${random.pick(names)}-${random.integer(1, 2)}`;
    const act = random.pick([
      () => this.#putService(random, namespace, name),
      () => this.#putService(random, namespace, name),
      () => this.#putSlice(random, namespace, name),
      () => this.#putSlice(random, namespace, name),
      () => this.#putSlice(random, namespace, name),
      () => this.#delete('services', namespace, name),
      () => this.#delete('endpointslices', namespace, `${name}-${random.integer(1, 2)}`),
      () => this.#putNativeService(random, namespace, name),
      () => this.#delete('nativeservices', namespace, name),
      () => this.#putMachine(random, namespace, name),
      () => this.#putMachine(random, namespace, name),
      () => this.#delete('virtualmachines', namespace, name),
    ]);
    this.#act(act);
  }

  /** Something that they should not do. */
  meddle(random: SeededRandom): void {
    const copies = this.#cluster
      .objects<Service>('services')
      .filter((each) => isCopy(each) || isVmService(each));
    const slices = this.#cluster
      .objects<EndpointSlice>('endpointslices')
      .filter((each) => isOwnSlice(each) || isVmSlice(each));
    const act = random.pick([
      () => this.#editCopy(random, copies),
      () => this.#editCopy(random, copies),
      () => this.#deleteOne(random, 'services', copies),
      () => this.#deleteOne(random, 'endpointslices', slices),
      () => this.#emptySlice(random, slices),
      () => this.#takePlace(random),
      () => this.#delete('leases', systemNamespace, leaseName),
      () => this.#delete('namespaces', '', random.pick(namespaces)),
    ]);
    this.#act(act);
  }

  /** Namespaces that are gone come again. */
  restoreNamespaces(): void {
    const found = this.#cluster.objects('namespaces').map(({ metadata }) => metadata.name);
    for (const name of [systemNamespace, ...namespaces]) {
      if (!found.includes(name)) this.#act(() => this.#makeNamespace(name));
    }
  }

  #putService(random: SeededRandom, namespace: string, name: string): void {
    const federated = random.pick(names);
    const scope = random.pick(['svc.federated', 'svc.global.federated']);
    const type = random.pick(['ClusterIP', 'ClusterIP', 'NodePort', 'LoadBalancer']);
    const port = random.pick([80, 80, 80, 8080]);
    this.#send('PUT', 'services', namespace, name, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: {
        name,
        labels: { serial: String(random.integer(1, 3)) },
        annotations: random.chance(0.8) ? { [`${scope}.hansa.dev`]: federated } : {},
      },
      spec: {
        type,
        selector: { app: name },
        ports: [{ name: 'http', port, targetPort: 8000 }],
        ...(random.chance(0.2) && { externalIPs: [`${this.#range}.9.${random.integer(1, 9)}`] }),
      },
    });
    if (type !== 'LoadBalancer') return;
    this.#patch('services', namespace, `${name}/status`, {
      status: { loadBalancer: { ingress: [{ ip: `${this.#range}.8.${random.integer(1, 9)}` }] } },
    });
  }

  #putSlice(random: SeededRandom, namespace: string, service: string): void {
    const name = `${service}-${random.integer(1, 2)}`;
    const count = random.chance(0.02) ? 130 : random.integer(0, 4);
    const first = random.integer(1, 100);
    this.#delete('endpointslices', namespace, name);
    this.#send('POST', 'endpointslices', namespace, undefined, {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name, labels: { [serviceNameLabel]: service } },
      addressType: 'IPv4',
      endpoints: Array.from({ length: count }, (_, index) => ({
        addresses: [`${this.#range}.1.${first + index}`],
        conditions: { ready: !random.chance(0.2) },
        nodeName: 'node-1',
      })),
      ports: [{ name: 'http', port: 8000, protocol: 'TCP' }],
    });
  }

  #putNativeService(random: SeededRandom, namespace: string, name: string): void {
    this.#delete('nativeservices', namespace, name);
    this.#send('POST', 'nativeservices', namespace, undefined, {
      apiVersion: leagueVersion,
      kind: 'NativeService',
      metadata: { name, annotations: { 'svc.global.federated.hansa.dev': random.pick(names) } },
      spec: {
        networkInterfaces: [{ internalIP: `${this.#range}.7.${random.integer(1, 9)}` }],
        ports: [{ name: 'http', port: random.pick([80, 443]) }],
      },
    });
  }

  #putMachine(random: SeededRandom, namespace: string, name: string): void {
    this.#delete('virtualmachines', namespace, name);
    this.#send('POST', 'virtualmachines', namespace, undefined, {
      apiVersion: leagueVersion,
      kind: 'VirtualMachine',
      metadata: { name },
      spec: {
        tags: {
          ...(random.chance(0.9) && { 'svc.hansa.dev': random.pick(['vms', 'web', '']) }),
          ...(random.chance(0.5) && { 'svc.global.federated.hansa.dev': random.pick(names) }),
        },
        networkInterfaces: [{ internalIP: `${this.#range}.6.${random.integer(1, 9)}` }],
        ports: [{ name: 'http', port: random.pick([80, 80, 443]) }],
      },
    });
  }

  #editCopy(random: SeededRandom, copies: readonly Service[]): void {
    const [copy] = copies.length === 0 ? [] : [random.pick(copies)];
    if (copy === undefined) return;
    const { namespace = '', name } = copy.metadata;
    const edit = random.pick([
      { spec: { ports: [{ name: 'other', port: 1234 }] } },
      { metadata: { labels: null } },
      { metadata: { annotations: { 'example.com/note': 'mine' } } },
      { spec: { selector: { app: 'mine' } } },
      { spec: { selector: null } },
    ]);
    this.#patch('services', namespace, name, edit);
  }

  #emptySlice(random: SeededRandom, slices: readonly EndpointSlice[]): void {
    const [slice] = slices.length === 0 ? [] : [random.pick(slices)];
    if (slice === undefined) return;
    const { namespace = '', name } = slice.metadata;
    this.#patch('endpointslices', namespace, name, { endpoints: [] });
  }

  #deleteOne(
    random: SeededRandom,
    plural: string,
    all: readonly Service[] | readonly EndpointSlice[],
  ): void {
    const [one] = all.length === 0 ? [] : [random.pick<Service | EndpointSlice>(all)];
    if (one !== undefined) this.#delete(plural, one.metadata.namespace ?? '', one.metadata.name);
  }

  /** A Service of a user with the name of a copy, or its end. */
  #takePlace(random: SeededRandom): void {
    const namespace = random.pick(namespaces);
    const name = random.pick(names);
    const found = this.#cluster
      .objects<Service>('services', namespace)
      .find(({ metadata }) => metadata.name === name);
    if (found !== undefined && !isCopy(found) && !isVmService(found)) {
      this.#delete('services', namespace, name);
    } else {
      this.#send('POST', 'services', namespace, undefined, {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name },
        spec: { ports: [{ port: 99 }] },
      });
    }
  }

  #claim(key: string, value: string): void {
    this.#send('POST', 'clusterclaims', '', undefined, {
      apiVersion: leagueVersion,
      kind: 'ClusterClaim',
      metadata: { name: key.toLowerCase() },
      spec: { name: key, value },
    });
  }

  #makeNamespace(name: string): void {
    this.#send('POST', 'namespaces', '', undefined, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name },
    });
  }

  #makeNode(index: number): void {
    this.#send('POST', 'nodes', '', undefined, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: `node-${index}` },
      status: { addresses: [{ type: 'InternalIP', address: `${this.#range}.6.${index}` }] },
    });
  }

  #delete(plural: string, namespace: string, name: string): void {
    this.#send('DELETE', plural, namespace, name, undefined);
  }

  #patch(plural: string, namespace: string, name: string, body: object): void {
    this.#send('PATCH', plural, namespace, name, body);
  }

  #send(
    method: string,
    plural: string,
    namespace: string,
    name: string | undefined,
    body: unknown,
  ): void {
    const { group, version } = this.#cluster.resource(plural);
    const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
    const inside = namespace === '' ? '' : `/namespaces/${namespace}`;
    this.#cluster.handle({
      method,
      path: `${root}${inside}/${plural}${name === undefined ? '' : `/${name}`}`,
      query: {},
      body,
      contentType: method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
      user: 'user',
    });
  }
}
