import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { clusterIDLabel } from '../names.ts';
import { memberConnector } from './connect-member.ts';
import type { MemberSettings } from './member.ts';
import { TestCluster } from './test-cluster.ts';

const cluster = (name: string, spec: object = {}, labels: object = {}): Cluster =>
  ({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Cluster',
    metadata: { name, uid: `uid-${name}`, generation: 1, labels },
    spec: { issuer: 'x', apiServer: `https://${name}.example:6443`, ...spec },
  }) as unknown as Cluster;

async function setUp(...clusters: readonly Cluster[]) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  for (const each of clusters) {
    await store.commit({
      put: [
        {
          collection: 'clusters',
          name: each.metadata.name,
          encode: () => Buffer.from(JSON.stringify(each)),
        },
      ],
    });
  }
  const connected: Cluster[] = [];
  const connector = memberConnector({
    store,
    clock,
    namespace: 'hansa-system',
    home: new TestCluster('home'),
    homeCluster: cluster('home-name', { local: true }),
    connectCluster: (each) => {
      connected.push(each);
      return new TestCluster();
    },
  });
  const find = (settings: MemberSettings, isHome = false) => {
    const found = connector.find(settings, isHome);
    if ('key' in found) found.open();
    return found;
  };
  return { find, connected };
}

const settings = (extra: Partial<MemberSettings> = {}): MemberSettings =>
  ({ clusterID: 'app1', ...extra }) as MemberSettings;

describe('the way to a member', () => {
  test('is the Cluster of the site with the name of its ID', async () => {
    const { find, connected } = await setUp(cluster('app1'));
    find(settings());
    find(settings({ server: 'https://APP1.example:6443/' }));
    assert.deepEqual(
      connected.map(({ metadata }) => metadata.name),
      ['app1', 'app1'],
    );
  });

  test('is rather the Cluster with the label of its ID', async () => {
    const labelled = cluster('prod', {}, { [clusterIDLabel]: 'app1' });
    const { find, connected } = await setUp(cluster('app1'), labelled);
    find(settings());
    assert.equal(connected[0]?.metadata.name, 'prod');
  });

  test('is the home Cluster for the home cluster, whatever its name is', async () => {
    const { find, connected } = await setUp();
    find(settings({ clusterID: 'home' }), true);
    assert.equal(connected[0]?.metadata.name, 'home-name');
  });

  test('is the server with its Secret where the Cluster has another server', async () => {
    const { find, connected } = await setUp(cluster('app1'));
    const found = find(settings({ server: 'https://other.example', secret: 'app1' }));
    assert.ok('key' in found);
    assert.deepEqual(connected, []);
  });

  test('is the server with a token of the site for that server only, where there is no Secret', async () => {
    const { find, connected } = await setUp();
    find(settings({ server: 'https://app1.example', caBundle: 'pem' }));
    const [{ spec } = cluster('none')] = connected;
    assert.equal(spec.credential?.jwtSVID?.audience, 'https://app1.example');
    assert.deepEqual([spec.apiServer, spec.caBundle], ['https://app1.example', 'pem']);
  });

  test('is unknown without a server and a Cluster, and says what to do', async () => {
    const found = (await setUp(cluster('app1', { apiServer: undefined }))).find(settings());
    assert.ok('reason' in found);
    assert.equal(found.reason, 'NoServer');
    assert.match(found.message, /Set server and secret/);
  });

  test('never leads to what is no https URL', async () => {
    const { find } = await setUp();
    for (const server of ['http://a.example', 'ftp://x', 'nonsense', 'https://user:pw@a.example']) {
      assert.ok('reason' in find(settings({ server, secret: 's' })), server);
    }
  });

  test('changes with everything that a connection depends on, and with nothing else', async () => {
    const { find } = await setUp();
    const base = { server: 'https://a.example', secret: 's' };
    const keyOf = (extra: Partial<MemberSettings>) => {
      const found = find(settings({ ...base, ...extra }));
      return 'key' in found ? found.key : '';
    };
    assert.equal(keyOf({ routable: true, endpointPrefixes: ['10.0.0.0/8'] }), keyOf({}));
    const others = [
      { server: 'https://b.example' },
      { secret: 't' },
      { caBundle: 'x' },
      { tlsServerName: 'y' },
    ];
    assert.equal(new Set([{}, ...others].map(keyOf)).size, 5);
  });
});
