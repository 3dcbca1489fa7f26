// Removing a trust domain from `federatesWith` ends its trust, whatever else of the SpireServer or of its cluster is
// broken. On clusters in memory.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readRelationships } from '../spire-sidecar/read-relationships.ts';
import { relationshipsKey, relationshipsMapName } from '../spire-relationships/sidecar-contract.ts';
import {
  operatedScene,
  type SceneOptions,
  type SpireScene,
  type TestSpireCluster,
} from '../spire/test-spire-scene.ts';
import { federations, peerDomain } from '../spire/test-spire-servers.ts';

const spiffe = {
  ...federations['https_spiffe by default'],
  exposure: { host: 'federation.a.example' },
};
const c = { ...peerDomain, trustDomain: 'c.example' };
const missingSecret = {
  bundleEndpoint: { profile: 'https_web', httpsWeb: { servingCert: { secretName: 'none' } } },
};

/** The trust domains in the request to the sidecar. */
function requested(cluster: TestSpireCluster): readonly string[] {
  const data = cluster.read('configmaps', relationshipsMapName, 'data') as Record<string, string>;
  const { document } = readRelationships(data[relationshipsKey]);
  return [...(document?.relationships ?? []), ...(document?.held ?? [])].map(
    ({ trustDomain }) => trustDomain,
  );
}

const domains = 'clusterfederatedtrustdomains';
/** The trust domains that spire-controller-manager gets. */
const written = (cluster: TestSpireCluster): readonly string[] =>
  cluster
    .names(domains)
    .map((name) => (cluster.read(domains, name, 'spec') as { trustDomain: string }).trustDomain);

/** The server federates with b.example and c.example. */
async function federating(options: SceneOptions = {}) {
  const { scene, app1 } = await operatedScene(options);
  await app1.apply({ ...spiffe, federatesWith: [peerDomain, c] });
  await scene.settle();
  return { scene, app1 };
}

/** Changes the spec past all checks, as a user whose CRD checks less. */
const force = (cluster: TestSpireCluster, federation: object, spec: object = {}): void =>
  cluster.edit('spireservers', 'cluster', (object) => ({
    ...object,
    metadata: { ...object.metadata, generation: 7 },
    spec: { ...(object['spec'] as object), ...spec, federation },
  }));

interface Blocker {
  readonly what: string;
  /** Beside the removal. */
  readonly federation?: object;
  readonly spec?: object;
  readonly also?: (cluster: TestSpireCluster) => void;
  /** The condition FederationConfigurationValid, where the site says why it goes no further. */
  readonly verdict?: string;
}

const blockers: readonly Blocker[] = [
  { what: 'a Secret that is missing', federation: missingSecret, verdict: 'False SecretMissing' },
  {
    what: 'a Secret that the site may not read',
    federation: missingSecret,
    also: (cluster) => void cluster.forbidden.add('get secrets'),
    verdict: 'False SecretUnreadable',
  },
  {
    what: 'an entry that cannot be used',
    federation: {
      federatesWith: [{ ...c, bundleEndpointUrl: 'https://c.example:65536/' }],
    },
    verdict: 'False Invalid',
  },
  {
    what: 'a spec that cannot be used',
    // With all defaults, so that an API server sees no change in it.
    federation: {
      bundleEndpoint: {
        port: 8081,
        address: '0.0.0.0',
        profile: 'https_spiffe',
        refreshHint: 300,
      },
    },
    verdict: 'False Invalid',
  },
  {
    what: 'another trust domain',
    spec: { trustDomain: 'new.example' },
    verdict: 'False TrustDomainChanged',
  },
  {
    what: 'namespaces that the site may not list',
    federation: { namespaceSelector: { matchLabels: { a: 'b' } } },
    also: (cluster) => {
      cluster.forbidden.add('list namespaces');
      cluster.forbidden.add('watch namespaces');
    },
  },
  {
    what: 'rights that the site lost',
    also: (cluster) => void cluster.forbidden.add('get serviceaccounts'),
  },
];

async function remove(
  { federation = {}, spec = {}, also }: Blocker,
  { scene, app1 }: { readonly scene: SpireScene; readonly app1: TestSpireCluster },
): Promise<void> {
  also?.(app1);
  force(app1, { ...spiffe, federatesWith: [c], ...federation }, spec);
  await scene.settle(20 * 60_000);
}

suite('removing a trust domain reaches the sidecar', () => {
  for (const blocker of blockers) {
    test(`beside ${blocker.what}`, async () => {
      const { scene, app1 } = await federating();
      assert.deepEqual(requested(app1), ['b.example', 'c.example']);
      await remove(blocker, { scene, app1 });
      assert.deepEqual(requested(app1), ['c.example']);
      if (blocker.verdict !== undefined) {
        assert.equal(app1.verdict('FederationConfigurationValid'), blocker.verdict);
      }
      await scene.stop();
    });
  }

  test('although a webhook refuses every other object of the server', async () => {
    const { scene, app1 } = await federating();
    app1.breaks = ({ name }) => !name.startsWith(relationshipsMapName);
    await remove({ what: '', federation: { bundleEndpoint: { port: 9443 } } }, { scene, app1 });
    assert.deepEqual(requested(app1), ['c.example']);
    await scene.stop();
  });

  test('with createOnly, under which the site changes nothing else', async () => {
    const { scene, app1 } = await federating();
    const before = app1.read('statefulsets', 'spire-server', 'spec');
    await remove({ what: '', spec: { createOnly: true, logLevel: 'debug' } }, { scene, app1 });
    assert.deepEqual(requested(app1), ['c.example']);
    assert.deepEqual(app1.read('statefulsets', 'spire-server', 'spec'), before);
    await scene.stop();
  });

  test('although the ClusterFederatedTrustDomains of the cluster cannot be read', async () => {
    const { scene, app1 } = await operatedScene({
      extra: ['Ingress', 'ClusterFederatedTrustDomain'],
    });
    await scene.mark('app1', { relationships: 'Sidecar' });
    await app1.apply({ ...spiffe, federatesWith: [peerDomain, c] });
    await scene.settle();
    assert.deepEqual(requested(app1), ['b.example', 'c.example']);
    await scene.stop();
    app1.forbidden.add(`list ${domains}`);
    app1.forbidden.add(`watch ${domains}`);
    await scene.start();
    await remove({ what: '' }, { scene, app1 });
    assert.deepEqual(requested(app1), ['c.example']);
    await scene.stop();
  });
});

suite('removing a trust domain reaches spire-controller-manager', () => {
  for (const blocker of blockers) {
    test(`beside ${blocker.what}`, async () => {
      const { scene, app1 } = await federating({
        extra: ['Ingress', 'ClusterFederatedTrustDomain'],
      });
      assert.deepEqual(written(app1).toSorted(), ['b.example', 'c.example']);
      await remove(blocker, { scene, app1 });
      assert.deepEqual(written(app1), ['c.example']);
      await scene.stop();
    });
  }
});

test('removing a trust domain reaches spire-controller-manager with createOnly', async () => {
  const { scene, app1 } = await federating({ extra: ['Ingress', 'ClusterFederatedTrustDomain'] });
  await remove({ what: '', spec: { createOnly: true } }, { scene, app1 });
  assert.deepEqual(written(app1), ['c.example']);
  await scene.stop();
});

suite('the condition FederationRelationshipsReady', () => {
  async function reported(fields: object, document: object = {}) {
    const { scene, app1 } = await federating();
    await app1.apply({ ...spiffe, federatesWith: [peerDomain] });
    await scene.settle();
    app1.makeReady();
    const now = scene.clock.now();
    const lastRefresh = new Date(now).toISOString();
    app1.sidecarReports(now, { lastRefresh, ...fields }, document);
    await scene.settle();
    const verdict = app1.verdict('FederationRelationshipsReady');
    const message = app1.condition('FederationRelationshipsReady')?.message ?? '';
    await scene.stop();
    return { verdict, message };
  }

  test('is true after the sidecar carried out the newest request', async () => {
    assert.equal((await reported({})).verdict, 'True Fresh');
  });

  test('is unknown while the sidecar reports an older request', async () => {
    assert.equal((await reported({}, { request: 'old' })).verdict, 'Unknown Pending');
    assert.equal((await reported({}, { request: undefined })).verdict, 'Unknown Pending');
  });

  test('is false while the server still has a trust domain that was removed', async () => {
    const b = { trustDomain: 'b.example', bundleEndpointURL: peerDomain.bundleEndpointUrl };
    const lastError = 'it could not be removed: no server at the socket';
    const relationships = [
      { ...b, profile: 'https_spiffe', hasBundle: true, kept: false },
      {
        ...b,
        trustDomain: 'c.example',
        profile: 'https_web',
        hasBundle: true,
        kept: true,
        lastError,
      },
    ];
    const { verdict, message } = await reported({}, { relationships });
    assert.equal(verdict, 'False NotRemoved');
    assert.match(message, /c\.example: it could not be removed/);
  });

  test('is false and says what the sidecar refuses', async () => {
    const refusals = ['relationships[0].bundleEndpointUrl: Invalid value'];
    const { verdict, message } = await reported({}, { refusals });
    assert.equal(verdict, 'False Refused');
    assert.match(message, /relationships\[0\]\.bundleEndpointUrl/);
  });

  test('is false while the sidecar cannot work, also with fresh bundles of before', async () => {
    const { verdict, message } = await reported({}, { problem: 'there is no socket' });
    assert.equal(verdict, 'False SidecarFailed');
    assert.match(message, /there is no socket/);
  });
});
