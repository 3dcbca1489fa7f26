// Upgrades and downgrades of federation: a SPIRE server begins to federate, a federation that was set up by hand becomes
// a managed one, and federation is turned off and on again by one field. Real kube-apiserver, StatefulSet controller,
// spire-server and spire-agent. The test counts the Pods and the templates that each step makes.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { compileObjects } from '../../src/kubernetes/spire/compile-objects.ts';
import type { Relationship } from '../../src/kubernetes/spire-relationships/parse-relationship.ts';
import { namespace, serverFacts, specOf } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { temporaryFolder } from '../e2e/daemon.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { podName } from './spire-cluster.ts';
import { missingTools } from './tool.ts';
import { WorkloadCalls } from './workload-calls.ts';

const skip =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kubectl',
    'kube-apiserver',
    'kube-controller-manager',
    'spire-server',
    'spire-agent',
    'go-spiffe',
  ));

suite('The federation of a SPIRE server', { skip }, () => {
  let etcd: Etcd;
  let site: OperatorSite;
  let a: OperatedSpire;
  let b: OperatedSpire;
  let knownB: Relationship;
  const calls = new WorkloadCalls();

  before(async () => {
    etcd = await startEtcd();
    site = await OperatorSite.start();
    a = await site.add('a', etcd);
    b = await site.add('b', etcd);
    a.spire.kubelet.host.connect(b.spire.kubelet.host, '203.0.113');
  });
  after(async () => {
    await site?.stop();
    await etcd?.stop();
  });

  /** Creates a server whose server.conf names b, as a user without Hansa would. */
  const setUpByHand = async (): Promise<readonly string[]> => {
    const { trustDomain } = a;
    const federation = { bundleEndpoint: {}, exposure: { type: 'None' } };
    const spec = specOf(federation, {
      trustDomain,
      clusterName: 'a',
      nodeAttestors: ['join_token'],
    });
    const { wanted } = compileObjects(spec, serverFacts(new Set()));
    const objects = wanted.map((manifest) => ({
      ...manifest,
      metadata: { ...manifest.metadata, ownerReferences: undefined },
    }));
    const map = objects.find(
      ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'spire-server',
    );
    const data = (map as { data?: Record<string, string> } | undefined)?.data ?? {};
    const conf = JSON.parse(data['server.conf'] ?? '') as { server: { federation: object } };
    Object.assign(conf.server.federation, {
      federates_with: {
        [b.trustDomain]: {
          bundle_endpoint_url: b.spire.endpoint,
          bundle_endpoint_profile: [
            { https_spiffe: { endpoint_spiffe_id: `spiffe://${b.trustDomain}/spire/server` } },
          ],
        },
      },
    });
    data['server.conf'] = JSON.stringify(conf);
    const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    const made = await a.kubectl.ok(['create', '-f', '-', '-o', 'name'], { input });
    return made.trim().split('\n');
  };

  test('begins with one restart, and the server keeps its authority', async () => {
    await b.declare(undefined);
    await b.spire.ready();
    const authority = await b.spire.run('bundle', 'show');
    const pod = b.pod;
    await b.federate([]);
    await b.replaced(pod);
    await b.untilCondition('FederationServiceReady', 'True', 'Ready');
    assert.equal(await b.spire.run('bundle', 'show'), authority);
    assert.equal(await b.templates(), 2);
  });

  test('that was set up by hand becomes a managed one with one restart, and loses no trust', async () => {
    const made = await setUpByHand();
    await a.spire.ready();
    // SPIRE took the relationship from its file.
    const log = a.spire.kubelet.log(podName, 'spire-server');
    assert.match(log, /Trust domain is now managed.*b\.example/);
    knownB = await b.spire.relationship();
    const file = join(temporaryFolder(), 'bundle.json');
    await writeFile(file, knownB.bundle ?? '');
    const id = `spiffe://${b.trustDomain}`;
    await a.spire.run('bundle', 'set', '-format', 'spiffe', '-id', id, '-path', file);
    await b.federate([await a.spire.relationship()]);
    await b.untilFresh(a);
    await a.spire.startAgent({ web: [b.trustDomain] });
    await b.spire.startAgent({ web: [a.trustDomain] });
    await calls.succeeds(a, b);
    await calls.succeeds(b, a);
    // The site touches nothing until the user hands it over.
    const { bundle: _, ...bare } = knownB;
    const pod = a.pod;
    await a.federate([bare]);
    await a.untilCondition('FederationObjectsInSync', 'False', 'OwnedByOthers');
    assert.equal(a.pod, pod);
    for (const name of made) {
      await a.kubectl.ok(['annotate', name, '-n', namespace, 'spire.hansa.dev/adopt=true']);
    }
    // Any change lets the site look again at once.
    await a.federate([bare], { withholdStaleBundles: true });
    const isManaged = async (): Promise<boolean> => {
      const { relationships = [] } = (await a.server())?.status ?? {};
      return relationships.some(
        ({ state, lastRefresh }) => state === 'Fresh' && lastRefresh !== undefined,
      );
    };
    const what = 'the site says that the bundle of b is fresh';
    const failed = await calls.during(a, b, isManaged, what);
    await a.replaced(pod);
    await a.untilCondition('FederationObjectsInSync', 'True', 'AsWanted');
    assert.deepEqual(failed, []);
    const conf = await a.kubectl.ok([
      'get',
      'configmap/spire-server',
      '-n',
      namespace,
      '-o',
      'json',
    ]);
    assert.doesNotMatch(conf, /federates_with/);
    assert.match(await a.spire.run('federation', 'list'), /b\.example/);
    assert.match(await a.spire.run('bundle', 'list'), /b\.example/);
    assert.equal(await a.templates(), 2);
    await calls.succeeds(b, a);
  });

  test('is turned off by one field, and on again without a bootstrap', async () => {
    const set = (enabled: boolean): Promise<string> => {
      const patch = JSON.stringify({ spec: { federation: { enabled } } });
      return a.kubectl.ok(['patch', 'spireserver/cluster', '--type=merge', '-p', patch]);
    };
    const first = a.pod;
    await set(false);
    await a.untilCondition('FederationServiceReady', 'False', 'NotFederated');
    assert.equal(await a.has('service/spire-server-federation'), false);
    await a.replaced(first);
    await a.spire.reports(b.trustDomain, (status) => status?.kept === true && !status.hasBundle);
    await calls.refused(b, a);
    await a.spire.run('x509', 'mint', `-spiffeID=spiffe://${a.trustDomain}/minted`);
    const second = a.pod;
    await set(true);
    await a.untilCondition('FederationServiceReady', 'True', 'Ready');
    await a.replaced(second);
    await a.untilFresh(b);
    await calls.succeeds(b, a);
    await calls.succeeds(a, b);
    // The template of before is used again.
    assert.equal(await a.templates(), 3);
  });
});
