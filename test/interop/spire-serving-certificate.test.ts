// A SPIRE server that a site operates serves its bundle with the certificate of a Secret (https_web). Another SPIRE
// server fetches the bundle. Real kube-apiserver, StatefulSet controller and spire-server.

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { connect } from 'node:tls';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { parseSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import {
  credentialOf,
  forge,
  forgeLeaf,
  type ForgeOptions,
  hourMs,
  purposes,
} from '../../src/core/identity/x509/test-forge.ts';
import { namespace, spireServer } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { temporaryFolder } from '../e2e/daemon.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
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
    'spire-server',
  ));

const name = 'federation.a.example';
const port = 8443;
const secretName = 'federation-tls';
/** The least that the schema allows. */
const fileSyncInterval = 30;

const authority = forge({ ca: true });

/** A certificate and its key, as files of a Secret. */
function credential(options: ForgeOptions = {}): Readonly<Record<'tls.crt' | 'tls.key', string>> {
  const leaf = forgeLeaf(authority, '', {
    uris: [],
    dnsNames: [name],
    purposes: [purposes.server],
    ...options,
  });
  const { certificateChain, privateKey } = credentialOf(leaf);
  return { 'tls.crt': certificateChain, 'tls.key': privateKey };
}

suite('a SPIRE server with the certificate of a Secret', { skip }, () => {
  const folder = temporaryFolder();
  let etcd: Etcd;
  let site: SpireSite;
  let other: SpireServer;

  const setSecret = (stringData: Readonly<Record<string, string>>): Promise<string> =>
    site.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: secretName, namespace },
      stringData,
    });
  const served = (
    servingCert: object = {},
    spec: Readonly<Record<string, unknown>> = {},
  ): Readonly<Record<string, unknown>> => {
    const httpsWeb = { servingCert: { secretName, fileSyncInterval, ...servingCert } };
    return spireServer(
      { bundleEndpoint: { port, profile: 'https_web', httpsWeb }, exposure: { type: 'None' } },
      { nodeAttestors: ['join_token'], ...spec },
    );
  };
  const untilValidity = (status: string, reason: string): Promise<void> =>
    site.condition(
      'FederationConfigurationValid',
      (found) => found?.status === status && found.reason === reason,
    );
  const fingerprintOf = (chain: string): string => new X509Certificate(chain).fingerprint256;
  /** The fingerprint of the certificate that the endpoint presents. */
  const presented = (): Promise<string | undefined> =>
    new Promise((resolve) => {
      const { address: host } = site.kubelet.host;
      const options = { host, port, servername: name, rejectUnauthorized: false };
      const socket = connect(options, () => {
        resolve(socket.getPeerX509Certificate()?.fingerprint256);
        socket.destroy();
      }).once('error', () => resolve(undefined));
    });
  const untilPresented = (chain: string): Promise<void> =>
    until(
      async () => (await presented()) === fingerprintOf(chain),
      () => `the endpoint presents the certificate: ${site.log()}`,
    );
  const hashOf = (document: string): string =>
    parseSpiffeBundle(document, TrustDomain.parse('a.example')).bundle.hash;

  before(async () => {
    etcd = await startEtcd();
    site = await SpireSite.start('a', { etcd, install: ['--secret', secretName] });
    const webRootsFile = join(folder, 'web-root.pem');
    writeFileSync(webRootsFile, certificatePem(authority.der));
    const names = { [name]: site.kubelet.host.address };
    other = await startSpire('b.example', { webRootsFile, names });
    await site.apply(served());
  });
  after(async () => {
    await other?.stop();
    await site?.stop();
    await etcd?.stop();
  });

  test('does not start without the Secret, or with a key of another certificate', async () => {
    await untilValidity('False', 'SecretMissing');
    const { 'tls.crt': certificate } = credential();
    await setSecret({ 'tls.crt': certificate, 'tls.key': credential()['tls.key'] });
    await untilValidity('False', 'SecretMalformed');
    assert.equal(await site.find('statefulset/spire-server', '-n', namespace), undefined);
  });

  test('serves the certificate, and its bundle to a server that trusts the Web PKI', async () => {
    const good = credential();
    await setSecret(good);
    await untilValidity('True', 'Valid');
    await site.ready();
    await untilPresented(good['tls.crt']);
    await other.run(
      'federation',
      'create',
      '-trustDomain=a.example',
      `-bundleEndpointURL=https://${name}:${port}/`,
      '-bundleEndpointProfile=https_web',
    );
    await other.run('federation', 'refresh', '-id', 'a.example');
    const list = ['bundle', 'list', '-id', 'spiffe://a.example', '-format', 'spiffe'];
    const own = await site.spire('bundle', 'show', '-format', 'spiffe');
    assert.equal(hashOf(await other.run(...list)), hashOf(own));
  });

  test('takes a renewed certificate without a restart', async () => {
    const pid = site.kubelet.pid(podName, 'spire-server');
    const renewed = credential();
    await setSecret(renewed);
    // As a kubelet does a while later.
    const volume = site.kubelet.volume(podName, 'federation-certs');
    for (const [file, text] of Object.entries(renewed)) writeFileSync(join(volume, file), text);
    await untilPresented(renewed['tls.crt']);
    assert.equal(site.kubelet.pid(podName, 'spire-server'), pid);
  });

  test('goes on while its SpireServer names a Secret that is not there', async () => {
    const [uid, certificate] = [site.kubelet.uid(podName), await presented()];
    await site.apply(served({ secretName: 'federation-tsl' }));
    await untilValidity('False', 'SecretUnreadable');
    assert.equal(site.kubelet.uid(podName), uid);
    assert.equal(await presented(), certificate);
    await site.apply(served());
    await untilValidity('True', 'Valid');
    assert.equal(site.kubelet.uid(podName), uid);
  });

  test('comes back when a template with which no Pod starts is corrected', async () => {
    const certificate = await presented();
    const uid = site.kubelet.uid(podName);
    // The site leaves the template as a user writes it.
    await site.apply(served({}, { createOnly: true }));
    await site.condition(
      'FederationObjectsInSync',
      (found) => found?.message.includes('createOnly') === true,
    );
    const patch = {
      spec: { template: { spec: { containers: [{ name: 'spire-server', image: 'none:1' }] } } },
    };
    await site.kubectl.ok([
      'patch',
      'statefulset/spire-server',
      '-n',
      namespace,
      '-p',
      JSON.stringify(patch),
    ]);
    const podUid = async (): Promise<string | undefined> =>
      (await site.find<{ metadata: { uid: string } }>(`pod/${podName}`, '-n', namespace))?.metadata
        .uid;
    await until(async () => ![undefined, uid].includes(await podUid()), 'the broken Pod is there');
    await site.condition('FederationServiceReady', (found) => found?.status === 'False');
    await site.apply(served({}, { createOnly: false }));
    await site.ready();
    await until(async () => (await presented()) === certificate, 'the endpoint serves again');
  });

  test('goes on with an expired certificate, and the condition says so', async () => {
    const pid = site.kubelet.pid(podName, 'spire-server');
    const [notBeforeMs, notAfterMs] = [Date.now() - 48 * hourMs, Date.now() - 24 * hourMs];
    await setSecret(credential({ notBeforeMs, notAfterMs }));
    await untilValidity('False', 'CertificateExpired');
    assert.match(await site.hansa('spire', 'show', 'a'), /CertificateExpired/);
    assert.equal(site.kubelet.pid(podName, 'spire-server'), pid);
  });
});
