// A SPIRE server that a site operates gets the certificate of its bundle endpoint by ACME, with SPIRE's own client.
// Another SPIRE server fetches the bundle with https_web. The ACME server is Pebble with two changes, see
// test/tools/build.ts: SPIRE's client does not work with the original.

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import type { AddressInfo, Server } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { connect } from 'node:tls';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { parseSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import { spireServer } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { temporaryFolder } from '../e2e/daemon.ts';
import { freePort } from '../e2e/free-ports.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { openDoor } from './kube-cluster.ts';
import { NameServer, type Pebble, startPebble } from './pebble.ts';
import { podName } from './spire-cluster.ts';
import { type SpireServer, startSpire } from './spire.ts';
import { SpireSite } from './spire-site.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kubectl',
    'pebble-for-spire',
    'spire-server',
  ));

const acmeName = 'acme.example';
const domainName = 'federation.a.example';
const port = 8443;
/** In the separate host of the Pods, which nothing else sees. */
const rootsFile = '/mnt/roots.pem';

suite('a SPIRE server with a certificate by ACME', { skip }, () => {
  const folder = temporaryFolder();
  let etcd: Etcd;
  let nameServer: NameServer;
  let pebble: Pebble;
  let site: SpireSite;
  let other: SpireServer;
  let door: Server;

  before(async () => {
    etcd = await startEtcd();
    nameServer = await NameServer.start();
    const [httpPort, tlsPort] = [await freePort(), port];
    pebble = await startPebble({
      folder,
      httpPort,
      tlsPort,
      nameServer,
      name: acmeName,
      tool: 'pebble-for-spire',
    });
    const pods = { env: { SSL_CERT_FILE: rootsFile }, machineNames: [acmeName] };
    site = await SpireSite.start('a', { etcd, pods });
    const { host } = site.kubelet;
    nameServer.leadsTo = host.address;
    door = await openDoor(host.gateway, pebble.port);
    const write = 'printf %s "$1" > "$2"';
    const roots = readFileSync(pebble.caFile, 'utf8');
    await host.run('sh', ['-c', write, 'sh', roots, rootsFile]);
    const webRootsFile = join(folder, 'issuing-root.pem');
    writeFileSync(webRootsFile, await pebble.issuingRoot());
    other = await startSpire('b.example', { webRootsFile, names: { [domainName]: host.address } });
    const directoryUrl = `https://${acmeName}:${(door.address() as AddressInfo).port}/dir`;
    const acme = { directoryUrl, domainName, email: 'ops@a.example', tosAccepted: true };
    await site.apply(
      spireServer(
        {
          bundleEndpoint: { port, profile: 'https_web', httpsWeb: { acme } },
          exposure: { type: 'None' },
        },
        { nodeAttestors: ['join_token'] },
      ),
    );
    await site.ready();
  });
  after(async () => {
    await other?.stop();
    door?.close();
    await site?.stop();
    await pebble?.stop();
    nameServer?.stop();
    await etcd?.stop();
  });

  /** The certificate that the endpoint presents. Undefined while it has none. */
  const presented = (): Promise<X509Certificate | undefined> =>
    new Promise((resolve) => {
      const { address: host } = site.kubelet.host;
      const options = { host, port, servername: domainName, rejectUnauthorized: false };
      const socket = connect(options, () => {
        resolve(socket.getPeerX509Certificate());
        socket.destroy();
      }).once('error', () => resolve(undefined));
    });
  const untilPresented = async (): Promise<X509Certificate> => {
    let found: X509Certificate | undefined;
    await until(
      async () => (found = await presented()) !== undefined,
      () => `the endpoint has a certificate: ${site.log(/missing certificate/)}`,
    );
    assert.ok(found);
    return found;
  };
  const create = (host: string): Promise<string> =>
    other.run(
      'federation',
      'create',
      '-trustDomain=a.example',
      `-bundleEndpointURL=https://${host}:${port}/`,
      '-bundleEndpointProfile=https_web',
    );
  const hashOf = (document: string): string =>
    parseSpiffeBundle(document, TrustDomain.parse('a.example')).bundle.hash;

  test('serves a certificate of the ACME server for its name', async () => {
    const certificate = await untilPresented();
    assert.match(certificate.subjectAltName ?? '', /^DNS:federation\.a\.example$/);
    assert.match(certificate.issuer, /Pebble Intermediate/);
    assert.equal(pebble.requests('finalize-order'), 1);
  });

  test('is refused under another name', async () => {
    await create(site.kubelet.host.address);
    await assert.rejects(other.run('federation', 'refresh', '-id', 'a.example'), /failed to fetch/);
    await other.run('federation', 'delete', '-id', 'a.example');
  });

  test('gives its bundle to another SPIRE server that trusts the Web PKI', async () => {
    await create(domainName);
    await other.run('federation', 'refresh', '-id', 'a.example');
    const fetched = await other.run(
      'bundle',
      'list',
      '-id',
      'spiffe://a.example',
      '-format',
      'spiffe',
    );
    assert.equal(hashOf(fetched), hashOf(await site.spire('bundle', 'show', '-format', 'spiffe')));
  });

  test('keeps its certificate over a restart', async () => {
    const { fingerprint256 } = await untilPresented();
    process.kill(site.kubelet.pid(podName, 'spire-server'), 'SIGKILL');
    await until(() => site.kubelet.restarts(podName, 'spire-server') === 1, 'it starts again');
    assert.equal((await untilPresented()).fingerprint256, fingerprint256);
    assert.equal(pebble.requests('finalize-order'), 1);
  });
});
