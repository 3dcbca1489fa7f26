// `make demo DEMO=clusters`: three Kubernetes clusters and two sites on one machine. A Service of one cluster is
// found and reached in all of them, also after the site that led them was killed. So is a machine outside Kubernetes.
// The demo checks every line that it prints, and exits with 1 if one is false.

import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { type Etcd, startEtcd } from '../interop/etcd.ts';
import { type KubeCluster, startKubeCluster } from '../interop/kube-cluster.ts';
import { moduleCrds, whyNoCrds } from '../interop/module-crds.ts';
import { ServiceCaller } from '../interop/service-callers.ts';
import { ensureTool, type ToolName } from '../tools/build.ts';
import { tellPolicies } from './demo-policies.ts';
import { type Daemon, execute, hansa, type Ran, startDaemon, temporaryFolder } from './daemon.ts';
import { tellNames } from './demo-cluster-names.ts';
import { expect, refused, seconds, succeeds, tell, whyUntrue } from './narration.ts';
import { whyNoHosts } from './separate-host.ts';
import { until } from './until.ts';

const keep = (process.env['KEEP'] ?? '') !== '';
const begun = performance.now();
const clusterNames = ['north', 'south', 'west'] as const;
type ClusterName = (typeof clusterNames)[number];
type Clusters = Readonly<Record<ClusterName, KubeCluster>>;

/** Without root there are no network namespaces: then nothing is called, and the rest is shown. */
const whyNoCalls = whyNoHosts();
/** The CRDs of the Multi-Cluster Services API come from a Go module. */
const whyNoExports = whyNoCrds('mcs');
const needed: readonly ToolName[] = [
  'etcd',
  'kubectl',
  'kube-apiserver',
  'kube-controller-manager',
  'kwok',
  ...(whyNoCalls === false ? (['kube-proxy', 'coredns'] as const) : []),
];

class DemoSite {
  readonly name: string;
  readonly home: ClusterName;
  readonly dataDir: string;
  daemon: Daemon | undefined;

  constructor(name: string, home: ClusterName) {
    this.name = name;
    this.home = home;
    this.dataDir = join(temporaryFolder(), name);
  }

  get trustDomain(): string {
    return `${this.name}.example`;
  }

  async start(): Promise<void> {
    const flags = ['--trust-domain', this.trustDomain, '--kubernetes-lease-seconds=5'];
    this.daemon = await startDaemon(this.dataDir, flags);
  }

  run(...args: readonly string[]): Promise<Ran> {
    return hansa([...args, '--data-dir', this.dataDir]);
  }

  join(clusters: Clusters, name: ClusterName): Promise<Ran> {
    return this.run('cluster', 'join', name, ...this.#flags(clusters, name), '--yes');
  }

  leave(clusters: Clusters, name: ClusterName): Promise<Ran> {
    const { kubeconfig } = clusters[name];
    const home = ['--home-kubeconfig', clusters[this.home].kubeconfig];
    return this.run('cluster', 'leave', name, '--kubeconfig', kubeconfig, ...home, '--yes');
  }

  #flags(clusters: Clusters, name: ClusterName): readonly string[] {
    const { kubeconfig } = clusters[name];
    const prefix = ['--endpoint-prefix', `${addressOf(clusters, name)}/32`, '--routable', '--dns'];
    return [
      '--kubeconfig',
      kubeconfig,
      '--cluster-set',
      'hanse',
      ...prefix,
      ...(name === this.home
        ? ['--supervisor']
        : ['--home-kubeconfig', clusters[this.home].kubeconfig]),
    ];
  }
}

/** Of the pods of a cluster: this machine, on its cable to the cluster. */
function addressOf(clusters: Clusters, name: ClusterName): string {
  return clusters[name].host?.gateway ?? `10.${clusterNames.indexOf(name) + 1}.0.1`;
}

const kubectl = async (cluster: KubeCluster, args: readonly string[], stdin = ''): Promise<Ran> => {
  const { path } = await ensureTool('kubectl');
  expect(path !== undefined, 'there is no kubectl');
  return execute(path, ['--kubeconfig', cluster.kubeconfig, ...args], { stdin });
};

const apply = (cluster: KubeCluster, ...objects: readonly object[]): Promise<string> =>
  succeeds(
    kubectl(
      cluster,
      ['apply', '-f', '-'],
      objects.map((one) => JSON.stringify(one)).join('\n---\n'),
    ),
  );

const shop = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } };
const service = (name: string, port: number): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop' },
  spec: { selector: { app: name }, ports: [{ name: 'http', port, targetPort: 8080 }] },
});

const serviceExport = {
  apiVersion: 'multicluster.x-k8s.io/v1alpha1',
  kind: 'ServiceExport',
  metadata: { name: 'backend', namespace: 'shop' },
};

/** ADDRESS of all ready endpoints of the copy of shop/web. */
async function copyIn(cluster: KubeCluster): Promise<readonly string[]> {
  interface Slices {
    readonly items: readonly {
      readonly endpoints:
        | readonly {
            readonly addresses: readonly string[];
            readonly conditions?: { readonly ready?: boolean };
          }[]
        | null;
    }[];
  }
  const selector =
    'kubernetes.io/service-name=web,endpointslice.kubernetes.io/managed-by=clusters.hansa.dev';
  const path = `/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?labelSelector=${encodeURIComponent(selector)}`;
  const { items } = await cluster.get<Slices>(path);
  return items
    .flatMap(({ endpoints }) => endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false)
    .flatMap(({ addresses }) => addresses)
    .toSorted();
}

async function untilCopies(
  clusters: readonly KubeCluster[],
  wanted: readonly string[],
): Promise<void> {
  let found: readonly (readonly string[])[] = [];
  await until(
    async () => {
      found = await Promise.all(clusters.map(copyIn));
      return found.every((each) => each.join() === wanted.toSorted().join());
    },
    () => `the copies lead to ${wanted.join()}, not ${found.map((each) => each.join()).join('; ')}`,
  );
}

/** What answers behind a federated Service, asked from a machine of this cluster by its name. */
async function call(
  cluster: KubeCluster,
  name = 'web',
  namespace = 'shop',
  port = 80,
): Promise<string> {
  const caller = await ServiceCaller.start(cluster);
  try {
    return await caller.call(name, namespace, 4, port);
  } finally {
    await caller.stop();
  }
}

/** What the pods of a cluster serve. No kubelet runs here, so this process does. */
function startBackend(clusters: Clusters, name: ClusterName): Promise<Server> {
  const server = createServer((socket) => socket.on('error', () => undefined).end(name));
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(8080, addressOf(clusters, name), () => resolve(server));
  });
}

async function tour(clusters: Clusters, lubeck: DemoSite, bruges: DemoSite): Promise<void> {
  const all = clusterNames.map((name) => clusters[name]);
  const { north, south, west } = clusters;
  const addresses = (...names: readonly ClusterName[]): readonly string[] =>
    names.map((name) => addressOf(clusters, name));

  await tell('lubeck.example leads from north, and south and west join', async () => {
    for (const name of clusterNames) await succeeds(lubeck.join(clusters, name));
    const status = await succeeds(lubeck.run('status'));
    expect(/members +3, 3 ready/.test(status), status);
    return '3 members, 3 ready';
  });
  await tell('bruges.example leads from south, for when lubeck is down', async () => {
    for (const name of ['south', 'north', 'west'] as const) {
      await succeeds(bruges.join(clusters, name));
    }
    return 'each cluster has two sites that may lead it';
  });
  await tell('the rights of a site: kubectl auth can-i', async () => {
    const can = async (...args: readonly string[]): Promise<string> => {
      const as = 'system:serviceaccount:hansa-system:hansa';
      return (await kubectl(west, ['auth', 'can-i', ...args, '--as', as])).stdout.trim();
    };
    expect((await can('list', 'services', '-A')) === 'yes', 'it cannot list Services');
    expect((await can('get', 'secrets', '-A')) === 'no', 'it can read Secrets');
    expect((await can('get', 'secrets', '-n', 'hansa-system')) === 'no', 'it can read Secrets');
    return 'reads Services, and no Secret';
  });
  await tell('north has a Service web, which is annotated', async () => {
    for (const cluster of all) await apply(cluster, shop);
    await apply(north, service('backend', 80));
    await north.addPod({
      namespace: 'shop',
      name: 'backend',
      labels: { app: 'backend' },
      address: addressOf(clusters, 'north'),
    });
    const start = performance.now();
    await succeeds(
      kubectl(north, [
        'annotate',
        'service',
        'backend',
        '-n',
        'shop',
        'svc.federated.hansa.dev=web',
      ]),
    );
    await untilCopies(all, addresses('north'));
    return `shop/web is in all three clusters after ${seconds(performance.now() - start)}`;
  });
  if (whyNoCalls === false) {
    await tell('a client in each cluster calls web.shop', async () => {
      const answers = await Promise.all(all.map((cluster) => call(cluster)));
      expect(answers.join() === 'north,north,north', `they reached ${answers.join()}`);
      return 'DNS, ClusterIP and TCP lead to north';
    });
  }
  await tell('south has the same Service: clients there stay there', async () => {
    await apply(south, service('backend', 80));
    await south.addPod({
      namespace: 'shop',
      name: 'backend',
      labels: { app: 'backend' },
      address: addressOf(clusters, 'south'),
    });
    await succeeds(
      kubectl(south, [
        'annotate',
        'service',
        'backend',
        '-n',
        'shop',
        'svc.federated.hansa.dev=web',
      ]),
    );
    await untilCopies([south], addresses('south'));
    await untilCopies([west], addresses('north', 'south'));
    return 'west has both, north and south their own';
  });
  await tell('hansa service show shop/web', async () => {
    const text = await succeeds(lubeck.run('service', 'show', 'shop/web'));
    expect(/^health +Healthy$/m.test(text), text);
    expect(/^north +shop\/backend +ClusterIP +1 +Federated/m.test(text), text);
    return 'members, endpoints, and the leader of each cluster';
  });
  if (whyNoExports === false) {
    await tell('north and south export backend with a ServiceExport', async () => {
      for (const cluster of [north, south]) await apply(cluster, serviceExport);
      const command = ['get', 'serviceimport', 'backend', '-n', 'shop', '-o'];
      const parts = '{.spec.type} {.spec.ips[0]} {.status.clusters[*].cluster}';
      await until(async () => {
        const { stdout } = await kubectl(west, [...command, `jsonpath=${parts}`]);
        return /^ClusterSetIP [0-9.]+ north south$/.test(stdout);
      }, 'west imports backend');
      const text = await succeeds(lubeck.run('service', 'show', 'shop/backend.clusterset'));
      expect(/^south +shop\/backend +ClusterIP +1 +Federated/m.test(text), text);
      return 'west has a ServiceImport with a ClusterSet IP';
    });
  }
  await tell('west wants another port for the name http', async () => {
    await apply(west, service('other', 8081));
    await succeeds(
      kubectl(west, ['annotate', 'service', 'other', '-n', 'shop', 'svc.federated.hansa.dev=web']),
    );
    await until(async () => {
      const { stdout } = await lubeck.run('service', 'list', '-o', 'wide');
      return /^shop\/web .* Conflict +west: .*8081\/TCP here and 80\/TCP in north/m.test(stdout);
    }, 'a conflict');
    await succeeds(kubectl(west, ['delete', 'service', 'other', '-n', 'shop']));
    return 'left out, with the reason: north is older';
  });
  await tellNames({
    ...clusters,
    address: addressOf(clusters, 'west'),
    site: (...args) => lubeck.run(...args),
    kubectl,
    call:
      whyNoCalls === false
        ? (cluster, name, port) => call(cluster, name, 'hansa-system', port)
        : undefined,
  });
  await tellPolicies({ ...clusters, site: (...args) => lubeck.run(...args), kubectl });
  await tell('the site that leads west is killed (-9)', async () => {
    const leader = await leaderOf(west, [lubeck, bruges]);
    const other = leader === lubeck ? bruges : lubeck;
    const start = performance.now();
    await leader.daemon?.signal('SIGKILL');
    await until(async () => (await leaderOf(west, [lubeck, bruges])) === other, 'a new leader');
    const took = seconds(performance.now() - start);
    await succeeds(kubectl(north, ['delete', 'pod', 'backend', '-n', 'shop']));
    await untilCopies(all, addresses('south'));
    await leader.start();
    return `${other.trustDomain} leads after ${took}, and changes still arrive`;
  });
  await tell('a name that belongs to another cluster', async () => {
    const flags = ['--kubeconfig', west.kubeconfig, '--home-kubeconfig', north.kubeconfig];
    const ran = lubeck.run('cluster', 'join', 'east', ...flags, '--id', 'south', '--yes');
    await refused(ran, 'HANSA_CONFLICT');
    return 'rejected (HANSA_CONFLICT)';
  });
  await tell('west leaves', async () => {
    for (const site of [bruges, lubeck]) await succeeds(site.leave(clusters, 'west'));
    const crds = await succeeds(kubectl(west, ['get', 'crds', '-o', 'name']));
    const left = await succeeds(kubectl(west, ['get', 'services', '-n', 'shop', '-o', 'name']));
    // Those of the Multi-Cluster Services API are not of Hansa.
    expect(!crds.includes('hansa.dev') && left.trim() === '', `${crds}${left}`);
    await untilCopies([north, south], addresses('south'));
    return 'no copy, CRD or role of Hansa is left, and north and south go on';
  });
}

async function leaderOf(cluster: KubeCluster, sites: readonly DemoSite[]): Promise<DemoSite> {
  let leader: DemoSite | undefined;
  await until(async () => {
    const path = '/apis/coordination.k8s.io/v1/namespaces/hansa-system/leases/hansa-leader';
    const { spec } = await cluster.get<{ readonly spec: { readonly holderIdentity?: string } }>(
      path,
    );
    leader = sites.find(({ trustDomain }) => spec.holderIdentity?.startsWith(`${trustDomain}/`));
    return leader !== undefined;
  }, `${cluster.name} has a leader`);
  return leader as DemoSite;
}

const sites = [new DemoSite('lubeck', 'north'), new DemoSite('bruges', 'south')] as const;
const backends: Server[] = [];
let etcd: Etcd | undefined;
let clusters: readonly KubeCluster[] = [];
try {
  for (const name of needed) {
    const tool = await ensureTool(name, (line) => process.stderr.write(`${line}\n`));
    expect(tool.path !== undefined, `${name} is missing: ${String(tool.reason)}`);
  }
  etcd = await startEtcd();
  const hasProxy = whyNoCalls === false;
  const started: KubeCluster[] = [];
  clusters = started;
  await tell('three Kubernetes clusters on this machine', async () => {
    const crds = whyNoExports === false ? moduleCrds('mcs') : [];
    const options = { etcd: etcd as Etcd, nodes: 1, hasProxy, hasDns: hasProxy, crds };
    const settled = await Promise.allSettled([
      ...clusterNames.map(async (name) => {
        started.push(await startKubeCluster(name, options));
      }),
      // They need no cluster to start.
      ...sites.map((site) => site.start()),
    ]);
    for (const one of settled) {
      if (one.status === 'rejected') throw one.reason as Error;
    }
    return 'kube-apiserver, kube-controller-manager, KWOK, kube-proxy, CoreDNS';
  });
  const byName = Object.fromEntries(started.map((one) => [one.name, one])) as Clusters;
  if (hasProxy) {
    for (const name of clusterNames) backends.push(await startBackend(byName, name));
  }
  await tour(byName, ...sites);
  process.stdout.write(`done in ${seconds(performance.now() - begun)}.`);
  if (typeof whyNoCalls === 'string') process.stdout.write(` Run it as root to see calls too.`);
  if (keep) {
    process.stdout.write(
      ` It runs until Ctrl-C. In another terminal:\n  ./hansa service show shop/web --data-dir ${sites[0].dataDir}\n  kubectl --kubeconfig ${byName.north.kubeconfig} get services -A\n`,
    );
    await new Promise((resolve) => {
      process.once('SIGINT', resolve).once('SIGTERM', resolve);
    });
  } else {
    process.stdout.write(' Keep it running with make demo DEMO=clusters KEEP=1.\n');
  }
} catch (error) {
  process.exitCode = 1;
  process.stderr.write(whyUntrue(error));
} finally {
  for (const { daemon } of sites) await daemon?.signal('SIGKILL');
  for (const backend of backends) backend.close();
  for (const cluster of clusters) await cluster.stop();
  await etcd?.stop();
}
