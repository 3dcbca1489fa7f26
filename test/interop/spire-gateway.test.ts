// Traefik serves the TLSRoute that the SPIRE operator writes: SPIRE servers outside the cluster fetch the bundle
// through it, and TLS ends at the SPIRE server. The site calls the endpoint through the gateway too, and says whether
// others reach it. Real kube-apiserver, controllers, spire-server and Traefik, with the CRDs of Gateway API 1.4.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { parseSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import { namespace } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { temporaryFolder } from '../e2e/daemon.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { SpireCluster } from './spire-cluster.ts';
import { type SpireServer, startSpire } from './spire.ts';
import { missingTools } from './tool.ts';
import { gatewayName, Traefik } from './traefik.ts';

const skip =
  whyNoHosts() ||
  whyNoCrds('gateway-1.4') ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kubectl',
    'spire-server',
    'traefik',
  ));

const host = 'federation.a.example';
const strange = 'other.a.example';

suite('The bundle endpoint of a SPIRE server behind a gateway', { skip }, () => {
  const folder = temporaryFolder();
  let etcd: Etcd;
  let site: OperatorSite;
  let a: OperatedSpire;
  let traefik: Traefik;
  let outside: SpireServer;

  before(async () => {
    etcd = await startEtcd();
    const spire = await SpireCluster.start('a', etcd, true, {
      crds: moduleCrds('gateway-1.4'),
      controllers: ['endpointslice-controller'],
    });
    const { gateway: address } = spire.kubelet.host;
    const names = { [host]: address, [strange]: address };
    site = await OperatorSite.start({ names });
    a = await site.operate(spire);
    traefik = new Traefik(spire.cluster, address);
    await traefik.install(namespace);
    await traefik.start();
    await a.federate([], { exposure: { type: 'TLSRoute', host, gateway: { name: gatewayName } } });
    await a.untilCondition('FederationServiceReady', 'True', 'Ready');
    outside = await startSpire('b.example', { names });
  });
  after(async () => {
    await outside?.stop();
    await traefik?.stop();
    await site?.stop();
    await etcd?.stop();
  });

  /** The SPIRE server outside federates with a by this name. */
  const create = async (name: string): Promise<void> => {
    const file = join(folder, 'a.json');
    writeFileSync(file, await a.spire.run('bundle', 'show', '-format', 'spiffe'));
    await outside.run(
      'federation',
      'create',
      '-trustDomain=a.example',
      `-bundleEndpointURL=https://${name}/`,
      '-bundleEndpointProfile=https_spiffe',
      '-endpointSpiffeID=spiffe://a.example/spire/server',
      '-trustDomainBundleFormat=spiffe',
      `-trustDomainBundlePath=${file}`,
    );
  };
  const hashOf = (document: string): string =>
    parseSpiffeBundle(document, TrustDomain.parse('a.example')).bundle.hash;

  test('is reached by the site, through the TLSRoute', async () => {
    assert.ok(await a.has('tlsroute/spire-server-federation'));
    await a.untilCondition('FederationRouteReady', 'True', 'Reached').catch((error: unknown) => {
      throw new Error(`${String(error)}\n${traefik.log()}`);
    });
    const { code, stdout } = await site.tryRun('doctor', '--spire', 'a');
    assert.equal(code, 0, stdout);
    assert.match(stdout, /The bundle is served at https:\/\/federation\.a\.example/);
  });

  test('gives its bundle to a SPIRE server outside, which authenticates SPIRE itself', async () => {
    await create(host);
    await outside.run('federation', 'refresh', '-id', 'a.example');
    const id = 'spiffe://a.example';
    const fetched = await outside.run('bundle', 'list', '-id', id, '-format', 'spiffe');
    assert.equal(hashOf(fetched), hashOf(await a.spire.run('bundle', 'show', '-format', 'spiffe')));
    await outside.run('federation', 'delete', '-id', 'a.example');
  });

  test('is not served under another name', async () => {
    await create(strange);
    await assert.rejects(
      outside.run('federation', 'refresh', '-id', 'a.example'),
      /failed to fetch/,
    );
  });

  test('says that its name has no listener at the gateway', async () => {
    const listen = async (hostname: string | null): Promise<void> => {
      const op = hostname === null ? 'remove' : 'add';
      const path = '/spec/listeners/0/hostname';
      const patch = JSON.stringify([{ op, path, ...(hostname !== null && { value: hostname }) }]);
      const what = ['patch', `gateway/${gatewayName}`, '-n', namespace];
      await a.kubectl.ok([...what, '--type=json', '-p', patch]);
    };
    await listen('elsewhere.example');
    const found = await a.untilCondition('FederationRouteReady', 'False', 'NotAdmitted');
    assert.match(found.message, /NoMatchingListenerHostname/);
    await listen(null);
    await a.untilCondition('FederationRouteReady', 'True', 'Reached');
  });

  test('says that nobody reaches it when the gateway is gone, and what to do', async () => {
    await traefik.stop();
    const found = await a.untilCondition('FederationRouteReady', 'False', 'Unreachable');
    assert.match(found.message, /Check its DNS record, the exposure, and firewalls/);
    const { code, stdout } = await site.tryRun('doctor', '--spire', 'a');
    assert.notEqual(code, 0);
    assert.match(stdout, /exposure +Unreachable/);
  });
});
