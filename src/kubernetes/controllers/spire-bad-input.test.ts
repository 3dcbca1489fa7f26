// Bad input for the SPIRE operator that no schema refuses, on clusters in memory: what the SpireServer says about it,
// and that a server that runs keeps its configuration.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  credentialOf,
  forge,
  forgeLeaf,
  type ForgeOptions,
  purposes,
} from '../../core/identity/x509/test-forge.ts';
import { readRelationships } from '../spire-sidecar/read-relationships.ts';
import { bundleOf } from '../spire-sidecar/test-sidecar-scene.ts';
import { relationshipsKey, relationshipsMapName } from '../spire-relationships/sidecar-contract.ts';
import { operatedScene, spireScene, type TestSpireCluster } from '../spire/test-spire-scene.ts';
import { federations, peerDomain, spireServer } from '../spire/test-spire-servers.ts';

const host = 'federation.a.example';
const exposure = { host };
const spiffe = { ...federations['https_spiffe by default'], exposure };
const servingCert = { ...federations['https_web by a serving certificate'], exposure };
const serversPath = '/apis/operator.openshift.io/v1alpha1/spireservers';

const messageOf = (cluster: TestSpireCluster, type: string): string =>
  cluster.condition(type)?.message ?? '';

/** For the Secret that `servingCert` names. */
function secretWith(
  options: ForgeOptions,
  without?: 'tls.crt' | 'tls.key',
): { readonly data: Readonly<Record<string, string>> } {
  const leaf = forgeLeaf(forge({ ca: true }), '', {
    uris: [],
    dnsNames: [host],
    purposes: [purposes.server],
    ...options,
  });
  const { certificateChain, privateKey } = credentialOf(leaf);
  const texts = Object.entries({ 'tls.crt': certificateChain, 'tls.key': privateKey });
  return {
    data: Object.fromEntries(
      texts
        .filter(([key]) => key !== without)
        .map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
    ),
  };
}

/** The trust domains in the request to the sidecar. */
function handedOver(cluster: TestSpireCluster) {
  const { document } = readRelationships(
    (cluster.read('configmaps', relationshipsMapName, 'data') as Record<string, string>)[
      relationshipsKey
    ],
  );
  const names = (list: readonly { readonly trustDomain: string }[] = []) =>
    list.map(({ trustDomain }) => trustDomain);
  return { relationships: names(document?.relationships), held: names(document?.held) };
}

/** A server with https_spiffe runs. Then a user asks for the certificate of this Secret. */
async function withSecret(secret: object) {
  const { scene, app1 } = await operatedScene();
  await app1.apply(spiffe);
  await scene.settle();
  const before = app1.find('statefulsets', 'spire-server');
  const metadata = { name: 'federation-tls', namespace: 'spire' };
  await app1.user.create('/api/v1/namespaces/spire/secrets', {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    ...secret,
  });
  await app1.apply(servingCert);
  await scene.settle();
  const mounts = JSON.stringify(app1.find('statefulsets', 'spire-server')).includes(metadata.name);
  return { scene, app1, before, mounts };
}

test('an entry that only the CRD of another operator accepts is left out, and the condition names the field', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(spiffe);
  await scene.settle();
  const before = app1.find('statefulsets', 'spire-server');
  app1.edit('spireservers', 'cluster', (object) => ({
    ...object,
    spec: {
      ...(object['spec'] as object),
      federation: {
        ...spiffe,
        federatesWith: [
          { ...peerDomain, bundleEndpointUrl: 'http://b.example' },
          { ...peerDomain, trustDomain: 'c.example' },
        ],
      },
    },
  }));
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False Invalid');
  assert.match(
    messageOf(app1, 'FederationConfigurationValid'),
    /^spec\.federation\.federatesWith\[0\]\.bundleEndpointUrl: Invalid value: "http:\/\/b\.example".* Everything else is applied\.$/,
  );
  assert.deepEqual(handedOver(app1), { relationships: ['c.example'], held: ['b.example'] });
  assert.deepEqual(app1.find('statefulsets', 'spire-server'), before);
  await app1.apply({ ...spiffe, federatesWith: [peerDomain] });
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  await scene.stop();
});

test('a trust domain that changed while the site was down is not applied either', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(spiffe);
  await scene.settle();
  const confOf = (): unknown => app1.read('configmaps', 'spire-server', 'data');
  const before = confOf();
  await scene.stop();
  await app1.apply(spiffe, { trustDomain: 'new.example' });
  // A site that starts reads the ConfigMaps later than the SpireServer, or cannot list them.
  app1.forbidden.add('list configmaps');
  await scene.start();
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False TrustDomainChanged');
  assert.match(
    messageOf(app1, 'FederationConfigurationValid'),
    /runs with the trust domain a\.example, and spec\.trustDomain is new\.example/,
  );
  assert.deepEqual(confOf(), before);
  await scene.stop();
});

test('a second SpireServer is refused by its name, and the first goes on', async () => {
  const scene = await spireScene();
  const app1 = await scene.register('app1');
  // The CRD of another operator may allow it.
  const { prepare: _, ...lenient } = app1.kube.stopServing('spireservers');
  app1.kube.serve(lenient);
  await scene.start();
  await app1.apply(spiffe);
  await scene.settle();
  const before = app1.find('statefulsets', 'spire-server');
  const shown = scene.list()[0]?.server;
  assert.equal(shown?.trustDomain, 'a.example');
  const other = spireServer(servingCert, { trustDomain: 'second.example' });
  await app1.user.create(serversPath, { ...other, metadata: { name: 'second' } });
  await scene.settle();
  const { conditions = [] } = (app1.find('spireservers', 'second')?.['status'] ?? {}) as {
    readonly conditions?: readonly { type: string; status: string; message: string }[];
  };
  const found = conditions.find(({ type }) => type === 'FederationConfigurationValid');
  assert.equal(found?.status, 'False');
  assert.match(found.message, /^metadata\.name: a cluster has one SpireServer, .* cluster\./);
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  assert.deepEqual(app1.find('statefulsets', 'spire-server'), before);
  // What commands and metrics show is the first one.
  assert.deepEqual(scene.list()[0]?.server, shown);
  await scene.stop();
});

test('a Secret that comes later is used within seconds', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(servingCert);
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False SecretMissing');
  await app1.user.create('/api/v1/namespaces/spire/secrets', {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'federation-tls', namespace: 'spire' },
    ...secretWith({}),
  });
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  assert.deepEqual(app1.names('statefulsets'), ['spire-server']);
  await scene.stop();
});

for (const without of ['tls.crt', 'tls.key'] as const) {
  test(`a Secret without ${without} holds the change back, and the condition names both`, async () => {
    const { scene, app1, before } = await withSecret(secretWith({}, without));
    assert.equal(app1.verdict('FederationConfigurationValid'), 'False SecretMalformed');
    const message = messageOf(app1, 'FederationConfigurationValid');
    assert.ok(message.startsWith(`The Secret spire/federation-tls has no ${without}. `), message);
    assert.deepEqual(app1.find('statefulsets', 'spire-server'), before);
    await scene.stop();
  });
}

test('an expired certificate is served, and the condition says when it expired', async () => {
  const times = { notBeforeMs: -2000, notAfterMs: -1000 };
  const { scene, app1, mounts } = await withSecret(secretWith(times));
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False CertificateExpired');
  assert.match(
    messageOf(app1, 'FederationConfigurationValid'),
    /^The certificate in the Secret spire\/federation-tls expired at 1969-12-31T23:59:59\.000Z\. .* Renew it\.$/,
  );
  assert.ok(mounts);
  await scene.stop();
});

test('a certificate for another name is served, and the condition says for which it should be', async () => {
  const { scene, app1, mounts } = await withSecret(secretWith({ dnsNames: ['other.example'] }));
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False CertificateForOtherName');
  assert.match(
    messageOf(app1, 'FederationConfigurationValid'),
    /spire\/federation-tls is not for federation\.a\.example, .*spec\.federation\.exposure\.host\.$/,
  );
  assert.ok(mounts);
  await scene.stop();
});

test('a certificate for others does not fit a Route that encrypts again, and fits one that passes through', async () => {
  const { scene, app1 } = await operatedScene({ extra: ['Route'] });
  await app1.user.create('/api/v1/namespaces/spire/secrets', {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'federation-tls', namespace: 'spire' },
    ...secretWith({}),
  });
  await app1.apply(servingCert);
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False CertificateForOtherName');
  assert.match(
    messageOf(app1, 'FederationConfigurationValid'),
    /not for spire-server-federation\.spire\.svc, by which the router calls/,
  );
  await app1.apply({ ...servingCert, exposure: { host, termination: 'passthrough' } });
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  await scene.stop();
});

for (const [what, set, given, named] of [
  ['the spec', exposure, undefined, host],
  ['the router', undefined, 'spire.apps.example', 'spire.apps.example'],
] as const) {
  test(`a host from ${what} that another Route has is named, with what to do`, async () => {
    const { scene, app1 } = await operatedScene({ extra: ['Route'] });
    await app1.apply({ bundleEndpoint: {}, ...(set !== undefined && { exposure: set }) });
    await scene.settle();
    const message = 'route default/shop already exposes it and is older.';
    const reason = 'HostAlreadyClaimed';
    const conditions = [{ type: 'Admitted', status: 'False', reason, message }];
    app1.edit('routes', 'spire-server-federation', (object) => ({
      ...object,
      status: { ingress: [{ ...(given !== undefined && { host: given }), conditions }] },
    }));
    await scene.settle();
    assert.equal(app1.verdict('FederationRouteReady'), 'False HostTaken');
    assert.equal(
      messageOf(app1, 'FederationRouteReady'),
      `Another Route has the host ${named}. ${message} Set spec.federation.exposure.host to another name, or remove the other Route.`,
    );
    await scene.stop();
  });
}

for (const [what, trustDomainBundle, words] of [
  ['is not JSON', 'no JSON', /JSON/],
  ['is of another trust domain', bundleOf('c.example'), /c\.example/],
] as const) {
  test(`a bundle that ${what} never reaches spire-controller-manager, and is named`, async () => {
    const { scene, app1 } = await operatedScene({
      extra: ['Ingress', 'ClusterFederatedTrustDomain'],
    });
    const objects = 'clusterfederatedtrustdomains';
    const bundles = (): readonly unknown[] =>
      app1
        .names(objects)
        .map((name) => app1.read(objects, name, 'spec') as { trustDomainBundle?: unknown })
        .map((spec) => spec.trustDomainBundle);
    const withBundle = (bundle: string): Promise<void> =>
      app1.apply({ ...spiffe, federatesWith: [{ ...peerDomain, trustDomainBundle: bundle }] });
    await withBundle(trustDomainBundle);
    await scene.settle();
    assert.deepEqual(bundles(), [undefined]);
    assert.equal(app1.verdict('FederationWarnings'), 'True Relationship');
    const message = messageOf(app1, 'FederationWarnings');
    assert.match(message, /^SpireServer has a bundle of b\.example that cannot be used\. /);
    assert.match(message, words);
    const good = bundleOf('b.example');
    await withBundle(good);
    await scene.settle();
    assert.equal(app1.verdict('FederationWarnings'), 'False None');
    await withBundle(trustDomainBundle);
    await scene.settle();
    assert.deepEqual(bundles(), [good], 'the last good one stays');
    await scene.stop();
  });
}

test('two clusters with one trust domain are named, each in the other', async () => {
  const { scene, app1 } = await operatedScene();
  const app2 = await scene.register('app2');
  for (const cluster of [app1, app2]) await cluster.apply(spiffe);
  await scene.settle(2 * 60_000);
  for (const [cluster, other] of [
    [app1, 'app2'],
    [app2, 'app1'],
  ] as const) {
    assert.equal(cluster.verdict('FederationWarnings'), 'True SameTrustDomain');
    assert.equal(
      messageOf(cluster, 'FederationWarnings'),
      `The server of the cluster ${other} has the trust domain a.example too. Two servers cannot share one. Change one of them.`,
    );
  }
  await scene.stop();
});
