// `make demo DEMO=spire`: two Kubernetes clusters with a SPIRE server each, which a site operates from SpireServers.
// Their workloads call each other, a third cluster is added, and one is removed. The demo checks every line that it
// prints, and exits with 1 if one is false.

import { type Etcd, startEtcd } from '../interop/etcd.ts';
import type { SpireCluster } from '../interop/spire-cluster.ts';
import { processOf, SpireOperation } from '../interop/spire-operation.ts';
import { ensureTool, type ToolName } from '../tools/build.ts';
import { expect, seconds, succeeds, tell, whyUntrue } from './narration.ts';
import { whyNoHosts } from './separate-host.ts';
import { until } from './until.ts';

const keep = (process.env['KEEP'] ?? '') !== '';
const begun = performance.now();
const needed: readonly ToolName[] = [
  'etcd',
  'kubectl',
  'kube-apiserver',
  'kube-controller-manager',
  'spire-server',
  'spire-agent',
  'go-spiffe',
];

const idOf = ({ trustDomain }: SpireCluster): string => `spiffe://${trustDomain}/web`;

/** `web` of a cluster, which answers `web` of another one, by both trust domains. */
const urls = new Map<string, string>();

async function call(from: SpireCluster, to: SpireCluster) {
  const key = `${from.trustDomain} ${to.trustDomain}`;
  const url = urls.get(key) ?? (await to.serve('web', idOf(from)));
  urls.set(key, url);
  return from.call('web', url, idOf(to));
}

/** Agents ask their server every second. */
async function answers(from: SpireCluster, to: SpireCluster): Promise<string> {
  let last = '';
  let said = '';
  await until(
    async () => {
      const { code, stdout, stderr } = await call(from, to);
      [said, last] = [stdout, stderr];
      return code === 0;
    },
    () => `${idOf(to)} answers ${idOf(from)}: ${last}`,
  );
  expect(said.includes(`hello ${idOf(from)}`), said);
  return idOf(from);
}

async function isRefused(from: SpireCluster, to: SpireCluster): Promise<void> {
  await until(async () => (await call(from, to)).code !== 0, `${idOf(from)} is refused`);
}

const connect = (one: SpireCluster, other: SpireCluster, network: string): void =>
  one.kubelet.host.connect(other.kubelet.host, network);

/** The rest of the tour, once the site and the clusters north and south run. */
async function tour(site: SpireOperation, north: SpireCluster, south: SpireCluster): Promise<void> {
  await tell('hansa spire install, in both clusters', async () => {
    for (const spire of [north, south]) await site.install(spire);
    const listed = await succeeds(site.run('spire', 'list'));
    expect(/^north /m.test(listed) && /^south /m.test(listed), listed);
    return 'the site may operate SPIRE there';
  });
  await tell('a SpireServer with federation in each', async () => {
    const start = performance.now();
    await Promise.all([site.declare(north), site.declare(south)]);
    const took = seconds(performance.now() - start);
    const map = await north.cluster.get<{ readonly data: Readonly<Record<string, string>> }>(
      '/api/v1/namespaces/spire/configmaps/spire-server',
    );
    const conf = map.data['server.conf'] ?? '';
    expect(/"federation": \{\s+"bundle_endpoint"/.test(conf), conf);
    expect(!conf.includes('federates_with'), conf);
    return `2 SPIRE servers run after ${took}, from generated configuration`;
  });
  const before = [north, south].map(processOf);
  await tell('hansa spire bootstrap --from north --to south', async () => {
    const start = performance.now();
    const { code, stderr } = await site.bootstrap(north, south);
    expect(code === 0, stderr);
    const prints = [...stderr.matchAll(/fingerprint (\S+)/g)].map(([, print]) => print);
    expect(prints.length === 2 && prints[0] !== prints[1], stderr);
    await site.areFresh(north, [south.trustDomain]);
    await site.areFresh(south, [north.trustDomain]);
    const took = seconds(performance.now() - start);
    return `each refreshed the bundle of the other after ${took}`;
  });
  await tell('workloads call each other across trust domains', async () => {
    await north.startAgent({ web: [south.trustDomain] });
    await south.startAgent({ web: [north.trustDomain], lonely: [] });
    const [one, other] = [await answers(north, south), await answers(south, north)];
    return `200 as ${one}, and as ${other}`;
  });
  await tell('a workload that does not federate calls', async () => {
    const url = await north.serve('web', `spiffe://${south.trustDomain}/lonely`);
    const { code, stderr } = await south.call('lonely', url, idOf(north));
    expect(code !== 0 && /certificate|bundle/.test(stderr), stderr);
    return 'refused: it does not know the authority of north';
  });
  const west = await addWest(site, north, south);
  await tell('north and south meanwhile', async () => {
    const after = [north, south].map(processOf);
    expect(after.join() === before.join(), `${before.join()} → ${after.join()}`);
    return 'no SPIRE server was restarted';
  });
  await tell('north removes south from federatesWith', async () => {
    const { spec } = await site.server(north);
    const federatesWith = spec.federation?.federatesWith ?? [];
    const left = federatesWith.filter((each) => each['trustDomain'] !== south.trustDomain);
    expect(left.length === 1, JSON.stringify(federatesWith));
    const start = performance.now();
    await site.patch(north, { federation: { federatesWith: left } });
    await isRefused(south, north);
    const took = seconds(performance.now() - start);
    expect(!(await north.run('bundle', 'list')).includes(south.trustDomain), 'its bundle is left');
    await answers(west, north);
    return `calls of south are refused after ${took}, those of west go on`;
  });
  await tell('hansa spire list', async () => {
    const listed = await succeeds(site.run('spire', 'list'));
    for (const { cluster, trustDomain } of [north, west]) {
      const row = new RegExp(`^${cluster.name} +${trustDomain} +True +True +Unknown +1/1`, 'm');
      expect(row.test(listed), listed);
    }
    return 'the bundles of north and west are fresh';
  });
  await tell('west leaves: kubectl delete spireserver cluster', async () => {
    await site.patch(north, { federation: { federatesWith: [] } });
    await site.kubectl(west, ['delete', 'spireserver', 'cluster']);
    await until(async () => {
      const left = await site.kubectl(west, ['get', 'statefulsets,services', '-n', 'spire']);
      return left.trim() === '';
    }, 'the objects of the server are gone');
    await site.areFresh(north, []);
    return 'its server and all its objects are gone';
  });
}

async function addWest(
  site: SpireOperation,
  north: SpireCluster,
  south: SpireCluster,
): Promise<SpireCluster> {
  let west: SpireCluster | undefined;
  await tell('a third cluster, west', async () => {
    west = await site.addCluster('west');
    connect(west, north, '198.51.100');
    await site.install(west);
    await site.declare(west);
    return 'a third SPIRE server runs';
  });
  const added = west as unknown as SpireCluster;
  await tell('hansa spire bootstrap --from west --to north', async () => {
    await succeeds(site.bootstrap(added, north));
    await site.areFresh(north, [south.trustDomain, added.trustDomain]);
    await added.startAgent({ web: [north.trustDomain] });
    await north.setFederatesWith('web', [south.trustDomain, added.trustDomain]);
    const [one, other] = [await answers(added, north), await answers(south, north)];
    return `200 as ${one}, still as ${other}`;
  });
  return added;
}

let etcd: Etcd | undefined;
let site: SpireOperation | undefined;
try {
  const whyNot = whyNoHosts();
  expect(whyNot === false, `${String(whyNot)}. Run it as root.`);
  for (const name of needed) {
    const tool = await ensureTool(name, (line) => process.stderr.write(`${line}\n`));
    expect(tool.path !== undefined, `${name} is missing: ${String(tool.reason)}`);
  }
  etcd = await startEtcd();
  const started = new SpireOperation(etcd);
  site = started;
  const clusters: SpireCluster[] = [];
  await tell('two Kubernetes clusters and a site on this machine', async () => {
    await started.start();
    for (const name of ['north', 'south']) clusters.push(await started.addCluster(name));
    return 'kube-apiserver, kube-controller-manager, and a kubelet for tests';
  });
  const [north, south] = clusters as [SpireCluster, SpireCluster];
  connect(north, south, '203.0.113');
  await tour(started, north, south);
  process.stdout.write(`done in ${seconds(performance.now() - begun)}.`);
  if (keep) {
    process.stdout.write(
      ` It runs until Ctrl-C. In another terminal:\n  ./hansa spire list --data-dir ${started.dataDir}\n  kubectl --kubeconfig ${started.kubeconfig} --context north get spireservers -o yaml\n`,
    );
    await new Promise((resolve) => {
      process.once('SIGINT', resolve).once('SIGTERM', resolve);
    });
  } else {
    process.stdout.write(' Keep it running with make demo DEMO=spire KEEP=1.\n');
  }
} catch (error) {
  process.exitCode = 1;
  process.stderr.write(whyUntrue(error));
} finally {
  await site?.stop();
  await etcd?.stop();
}
