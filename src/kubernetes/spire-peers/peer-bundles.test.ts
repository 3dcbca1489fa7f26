// Bundles of SPIRE servers for peers and from peers, on clusters in memory.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { publishedReader, wantedReader } from '../../core/spire-bundles/records.ts';
import type { Reader } from '../../core/store/reader.ts';
import type { Entry } from '../../core/store/store.ts';
import { withPeerBundles } from './peer-bundles.ts';
import {
  relationshipsKey,
  relationshipsMapName,
  statusKey,
  statusMapName,
} from '../spire-relationships/sidecar-contract.ts';
import { spireScene } from '../spire/test-spire-scene.ts';
import { federations, peerDomain } from '../spire/test-spire-servers.ts';

const exposure = { host: 'federation.a.example' };
const federated = {
  ...federations['https_spiffe by default'],
  exposure,
  federatesWith: [peerDomain],
};

function documentOf(trustDomain: string, root = forgeRoot(trustDomain)): string {
  const bundle = new Bundle(TrustDomain.parse(trustDomain), [root.certificate]);
  return encodeSpiffeBundle(bundle, { sequence: 0, refreshHintSeconds: 300 });
}

async function scene(bundlePeers: readonly string[] = ['bruges.example']) {
  const made = await spireScene();
  const app1 = await made.register('app1', { bundlePeers });
  await app1.apply(federated);
  await made.start();
  await made.settle();
  // The operator creates both maps. It watches objects with its labels only.
  const map = (name: string, data: object): void =>
    app1.edit('configmaps', name, (object) => ({ ...object, data }));
  const receive = async (peer: string, ...bundles: readonly object[]): Promise<void> => {
    const encode = () => Buffer.from(JSON.stringify({ bundles }));
    await made.store.commit({ put: [{ collection: 'spire.received', name: peer, encode }] });
    await made.settle();
  };
  /** What the sidecar is told about b.example. */
  const told = (): string | undefined => {
    const data = app1.read('configmaps', relationshipsMapName, 'data') as Record<string, string>;
    const { relationships } = JSON.parse(data[relationshipsKey] ?? '{}') as {
      readonly relationships: readonly { readonly trustDomain: string; readonly bundle?: string }[];
    };
    assert.deepEqual(
      relationships.map(({ trustDomain }) => trustDomain),
      ['b.example'],
    );
    return relationships[0]?.bundle;
  };
  const record = <T>(reader: Reader<T>): T | undefined => reader.get(made.store, 'app1');
  return { ...made, app1, map, receive, told, record };
}

const offered = (document: string, cluster = 'app2', trustDomain = 'b.example') => ({
  cluster,
  trustDomain,
  document,
});

/** The report of the sidecar after the first refresh of b.example. */
const refreshed = {
  [statusKey]: JSON.stringify({
    observedAt: '2026-01-01T00:00:00Z',
    relationships: [
      {
        trustDomain: 'b.example',
        bundleEndpointURL: peerDomain.bundleEndpointUrl,
        profile: 'https_spiffe',
        lastRefresh: '2026-01-01T00:00:00Z',
        hasBundle: true,
        kept: false,
      },
    ],
  }),
};

suite('bundles of SPIRE servers between peered sites', () => {
  test('the site publishes the authorities of a server that federates', async () => {
    const { app1, map, settle, record, stop } = await scene();
    assert.equal(record(publishedReader), undefined);
    const root = forgeRoot('a.example');
    map('spire-bundle', { 'bundle.crt': certificatePem(root.certificate.der) });
    await settle();
    const published = record(publishedReader);
    assert.equal(published?.trustDomain, 'a.example');
    assert.equal(published.document, documentOf('a.example', root));
    // Text that is no certificate is not published.
    map('spire-bundle', { 'bundle.crt': 'no certificate' });
    await settle(120_000);
    assert.equal(record(publishedReader), undefined);
    map('spire-bundle', { 'bundle.crt': certificatePem(root.certificate.der) });
    await settle(120_000);
    assert.notEqual(record(publishedReader), undefined);
    await app1.apply({ ...federated, enabled: false });
    await settle();
    assert.equal(record(publishedReader), undefined);
    await stop();
  });

  test('a bundle of a named peer is the bootstrap bundle of what federatesWith names', async () => {
    const { receive, told, record, stop } = await scene();
    const wanted = record(wantedReader);
    assert.deepEqual(wanted?.trustDomains, ['b.example']);
    assert.deepEqual(wanted.peers, ['bruges.example']);
    assert.equal(told(), undefined);
    const document = documentOf('b.example');
    await receive(
      'bruges.example',
      offered(document),
      offered(documentOf('evil.example'), 'x', 'evil.example'),
    );
    assert.equal(told(), document);
    await stop();
  });

  test('a bundle of a peer that the Cluster does not name is not used', async () => {
    const { receive, told, stop } = await scene();
    await receive('reval.example', offered(documentOf('b.example')));
    assert.equal(told(), undefined);
    await stop();
    const none = await scene([]);
    await none.receive('bruges.example', offered(documentOf('b.example')));
    assert.equal(none.told(), undefined);
    assert.equal(none.record(wantedReader), undefined);
    await none.stop();
  });

  test('a bundle that SPIRE refreshed is never replaced', async () => {
    const { map, settle, receive, told, record, stop } = await scene();
    await receive('bruges.example', offered(documentOf('b.example')));
    assert.notEqual(told(), undefined);
    map(statusMapName, refreshed);
    await settle(120_000);
    assert.equal(told(), undefined);
    assert.equal(record(wantedReader), undefined);
    await receive('bruges.example', offered(documentOf('b.example')));
    assert.equal(told(), undefined);
    await stop();
  });

  test('a site that starts does not replace it before it has read what SPIRE refreshed', async () => {
    const { app1, map, start, settle, receive, told, record, stop } = await scene();
    const root = forgeRoot('a.example');
    map('spire-bundle', { 'bundle.crt': certificatePem(root.certificate.der) });
    map(statusMapName, refreshed);
    await settle(120_000);
    await stop();
    app1.forbidden.add('list configmaps').add('watch configmaps');
    await start();
    await receive('bruges.example', offered(documentOf('b.example')));
    assert.equal(told(), undefined);
    assert.equal(record(wantedReader), undefined);
    // Peers go on to get what the site published.
    assert.equal(record(publishedReader)?.trustDomain, 'a.example');
    app1.forbidden.clear();
    await settle(120_000);
    assert.equal(told(), undefined);
    await stop();
  });

  test('a SpireServer that was deleted publishes nothing and wants nothing', async () => {
    const { app1, map, settle, record, stop } = await scene();
    const root = forgeRoot('a.example');
    map('spire-bundle', { 'bundle.crt': certificatePem(root.certificate.der) });
    await settle();
    assert.notEqual(record(publishedReader), undefined);
    assert.notEqual(record(wantedReader), undefined);
    await app1.deleteServer();
    await settle();
    assert.equal(record(publishedReader), undefined);
    assert.equal(record(wantedReader), undefined);
    await stop();
  });

  test('a damaged record of a peer gives nothing, and holds up nothing', async () => {
    const { receive, told, stop } = await scene(['bruges.example', 'reval.example']);
    await receive('bruges.example', { cluster: 'app2', trustDomain: 'b.example', document: 7 });
    assert.equal(told(), undefined);
    const document = documentOf('b.example');
    await receive('reval.example', offered(document));
    assert.equal(told(), document);
    await stop();
  });

  test('bundles of peers take a bounded part of the ConfigMap', () => {
    const list = ['b', 'c', 'd', 'e'].map((name) => ({
      trustDomain: `${name}.example`,
      bundleEndpointURL: `https://${name}.example`,
      profile: 'https_web' as const,
      from: 'SpireServer',
    }));
    const bundles = list.map(({ trustDomain }) => ({
      cluster: 'app2',
      trustDomain,
      document: `${documentOf(trustDomain)}${' '.repeat(120 * 1024)}`,
    }));
    const entry = {
      collection: 'spire.received',
      name: 'bruges.example',
      value: Buffer.from(JSON.stringify({ bundles })),
      revision: 1,
    } as Entry;
    const { relationships, warnings } = withPeerBundles(
      { list, held: [], problems: [] },
      ['bruges.example'],
      undefined,
      { get: () => entry },
    );
    assert.deepEqual(
      relationships.list.map(({ bundle }) => bundle !== undefined),
      [true, true, true, false],
    );
    assert.match(warnings[0]?.message ?? '', /bundle of e\.example .* too large together/);
  });

  test('the bundle of the user comes first', async () => {
    const { app1, settle, receive, told, record, stop } = await scene();
    const trustDomainBundle = documentOf('b.example');
    await app1.apply({ ...federated, federatesWith: [{ ...peerDomain, trustDomainBundle }] });
    await settle();
    await receive('bruges.example', offered(documentOf('b.example')));
    assert.equal(told(), trustDomainBundle);
    assert.equal(record(wantedReader), undefined);
    await stop();
  });

  test('peers that contradict each other are not believed, and the status says so', async () => {
    const { app1, receive, told, stop } = await scene(['bruges.example', 'reval.example']);
    await receive('bruges.example', offered(documentOf('b.example')));
    assert.notEqual(told(), undefined);
    await receive('reval.example', offered(documentOf('b.example'), 'mine'));
    assert.equal(told(), undefined);
    assert.match(
      app1.condition('FederationWarnings')?.message ?? '',
      /different bundles of b\.example: bruges\.example \(cluster app2\), reval\.example/,
    );
    await stop();
  });

  test('a bundle with an authority of another trust domain is not used', async () => {
    const { app1, receive, told, stop } = await scene();
    const bundle = new Bundle(TrustDomain.parse('b.example'), [forgeRoot('c.example').certificate]);
    const document = encodeSpiffeBundle(bundle, { sequence: 0, refreshHintSeconds: 300 });
    await receive('bruges.example', offered(document));
    assert.equal(told(), undefined);
    assert.match(
      app1.condition('FederationWarnings')?.message ?? '',
      /bundle of b\.example from bruges\.example is not used/,
    );
    await stop();
  });
});
