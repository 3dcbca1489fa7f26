import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { stopServers } from '../../core/kube/test-api-server.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { spireServer } from '../spire/test-spire-servers.ts';
import { objectNameOf, sourceLabel } from '../spire-relationships/relationships.ts';
import { bundleOfDocument, bundleOfPem } from '../spire/server-bundle.ts';
import { type Call, failure, startKube, type TestKube } from './test-kube.ts';
import { type Ran, TestScene } from './test-scene.ts';

const serverPath = '/apis/operator.openshift.io/v1alpha1/spireservers/cluster';
const mapPath = '/api/v1/namespaces/spire/configmaps/spire-bundle';
const collection = '/apis/spire.spiffe.io/v1alpha1/clusterfederatedtrustdomains';

const rootOf = (trustDomain: string): Bundle =>
  new Bundle(TrustDomain.parse(trustDomain), [forgeRoot(trustDomain).certificate]);
const bundles = { a: rootOf('a.example'), b: rootOf('b.example') };
const documentOf = (bundle: Bundle): string =>
  encodeSpiffeBundle(bundle, { sequence: 1, refreshHintSeconds: 60 });

type Name = 'a' | 'b';

/** The answer to a patch of a spec, which the test server does not know. */
const patched = {
  status: 200,
  body: { apiVersion: 'v1', kind: 'Thing', metadata: { name: 'mine' } },
};

suite('hansa spire bootstrap', () => {
  let scene: TestScene;
  let kubes: Record<Name, TestKube>;
  /** What the clusters do otherwise. */
  let otherwise: (name: Name, call: Call) => ReturnType<typeof failure> | undefined;

  beforeEach(async () => {
    scene = new TestScene();
    otherwise = () => undefined;
    kubes = {
      a: await startKube((call) => otherwise('a', call)),
      b: await startKube((call) => otherwise('b', call)),
    };
    for (const name of ['a', 'b'] as const) {
      kubes[name].put('/api/v1/namespaces/spire', {});
      putServer(name, `${name}.example`);
      kubes[name].put(mapPath, { data: { 'bundle.crt': bundles[name].pem } });
    }
    const parts = (['a', 'b'] as const).map((name) => {
      const { clusters, users } = kubes[name].kubeconfig as {
        clusters: readonly { cluster: object }[];
        users: readonly { user: object }[];
      };
      return { name, cluster: clusters[0]?.cluster, user: users[0]?.user };
    });
    scene.writeConfig('config', {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: parts.map(({ name, cluster }) => ({ name, cluster })),
      users: parts.map(({ name, user }) => ({ name, user })),
      contexts: parts.map(({ name }) => ({ name, context: { cluster: name, user: name } })),
    });
  });
  afterEach(() => scene.end());
  after(() => stopServers());

  function putServer(name: Name, trustDomain: string, federation: object = {}): void {
    const exposure = { host: `spire.${trustDomain}` };
    const fields = { bundleEndpoint: {}, exposure, ...federation };
    kubes[name].put(serverPath, spireServer(fields, { trustDomain }));
  }
  const bootstrap = (...more: readonly string[]): Promise<Ran> =>
    scene.spire(['bootstrap', '--kubeconfig', 'config', '--from', 'a', '--to', 'b', ...more]);
  const specs = (name: Name): readonly Record<string, unknown>[] =>
    [...kubes[name].objects]
      .filter(([path]) => path.startsWith(`${collection}/`))
      .map(([, { spec = {} }]) => spec);
  const withoutKind = (): void => {
    otherwise = (_name, { path }) =>
      path.startsWith(collection) ? failure(404, 'NotFound', 'no such kind') : undefined;
  };
  const federatesWith = (name: Name): readonly Record<string, unknown>[] => {
    const { federation } = (kubes[name].objects.get(serverPath)?.spec ?? {}) as {
      federation?: { federatesWith?: readonly Record<string, unknown>[] };
    };
    return federation?.federatesWith ?? [];
  };
  const isUnchanged = (name: Name): boolean =>
    specs(name).length === 0 && federatesWith(name).length === 0;

  test('gives each cluster the bundle of the other, after showing both fingerprints', async () => {
    const { error, notes, questions, printed } = await bootstrap();
    assert.equal(error, undefined);
    assert.equal(questions.length, 1);
    for (const name of ['a', 'b'] as const) {
      const { fingerprint } = bundleOfPem(bundles[name].pem, `${name}.example`);
      assert.ok(notes.includes(fingerprint));
    }
    const [ofB] = specs('a');
    assert.deepEqual(
      { ...ofB, trustDomainBundle: undefined },
      {
        trustDomain: 'b.example',
        bundleEndpointURL: 'https://spire.b.example/',
        bundleEndpointProfile: {
          type: 'https_spiffe',
          endpointSPIFFEID: 'spiffe://b.example/spire/server',
        },
        trustDomainBundle: undefined,
      },
    );
    const read = bundleOfDocument(String(ofB?.['trustDomainBundle']), 'b.example');
    assert.equal(read.fingerprint, bundleOfPem(bundles.b.pem, 'b.example').fingerprint);
    assert.equal(specs('b')[0]?.['trustDomain'], 'a.example');
    assert.match(printed, /a has the bundle of b\.example in ClusterFederatedTrustDomain/);
  });

  test('writes to the SpireServer where the cluster has no ClusterFederatedTrustDomain', async () => {
    withoutKind();
    const { error } = await bootstrap('--to-url', 'https://b.example:8443/');
    assert.equal(error, undefined);
    const [entry] = federatesWith('a');
    assert.equal(entry?.['bundleEndpointUrl'], 'https://b.example:8443/');
    assert.equal(entry?.['endpointSpiffeId'], 'spiffe://b.example/spire/server');
    assert.match(String(entry?.['trustDomainBundle']), /x5c/);
    assert.equal((await bootstrap()).error, undefined);
    assert.equal(federatesWith('a').length, 1);
    assert.equal(federatesWith('a')[0]?.['bundleEndpointUrl'], 'https://b.example:8443/');
  });

  test('adds the bundle to an object that a user wrote, and keeps its endpoint', async () => {
    kubes.a.put(`${collection}/mine`, {
      spec: { trustDomain: 'b.example', bundleEndpointURL: 'https://elsewhere/' },
    });
    const patches: unknown[] = [];
    otherwise = (_name, { method, path, body }) => {
      if (method !== 'PATCH') return undefined;
      patches.push([path, Object.keys(body?.spec ?? {})]);
      return patched;
    };
    const { error } = await bootstrap();
    assert.equal(error, undefined);
    assert.deepEqual(patches, [[`${collection}/mine`, ['trustDomainBundle']]]);
  });

  /** The object that the site writes from federatesWith of a. */
  const declare = (): string => {
    const entry = {
      trustDomain: 'b.example',
      bundleEndpointUrl: 'https://spire.b.example/',
      bundleEndpointProfile: 'https_spiffe',
      endpointSpiffeId: 'spiffe://b.example/spire/server',
    };
    putServer('a', 'a.example', { federatesWith: [entry] });
    const path = `${collection}/${objectNameOf('b.example')}`;
    kubes.a.put(path, {
      metadata: { name: objectNameOf('b.example'), labels: { [sourceLabel]: 'spireserver' } },
      spec: { trustDomain: 'b.example', bundleEndpointURL: 'https://spire.b.example/' },
    });
    return path;
  };

  test('writes to the SpireServer what the site hands to spire-controller-manager from there', async () => {
    declare();
    const { error, printed } = await bootstrap();
    assert.equal(error, undefined);
    assert.match(printed, /a has the bundle of b\.example in SpireServer cluster/);
    assert.match(String(federatesWith('a')[0]?.['trustDomainBundle']), /x5c/);
    assert.equal(specs('a')[0]?.['trustDomainBundle'], undefined);
  });

  test('adds the bundle to the object of the site where the CRD of another operator drops it', async () => {
    const path = declare();
    const patches: unknown[] = [];
    otherwise = (name, { method, path: asked, body }) => {
      if (name === 'a' && method === 'PUT') return { status: 200, body: { ...body, spec: {} } };
      if (method !== 'PATCH') return undefined;
      patches.push([asked, Object.keys(body?.spec ?? {})]);
      return patched;
    };
    assert.equal((await bootstrap()).error, undefined);
    assert.deepEqual(patches, [[path, ['trustDomainBundle']]]);
  });

  test('leaves the name of the object of the site free', async () => {
    assert.equal((await bootstrap()).error, undefined);
    assert.equal(kubes.a.objects.get(`${collection}/${objectNameOf('b.example')}`), undefined);
    assert.equal(specs('a').length, 1);
  });

  test('takes bundles from files', async () => {
    const other = rootOf('b.example');
    scene.writeConfig('b.json', documentOf(other));
    assert.equal((await bootstrap('--to-bundle', 'b.json')).error, undefined);
    assert.equal(specs('a')[0]?.['trustDomainBundle'], documentOf(other));
  });

  test('changes nothing with --dry-run', async () => {
    const { error, questions, printed } = await bootstrap('--dry-run', '-o', 'json');
    assert.equal(error, undefined);
    assert.deepEqual(questions, []);
    assert.match(printed, /"trustDomain": "b\.example"/);
    assert.ok(isUnchanged('a') && isUnchanged('b'));
  });

  const refused: readonly (readonly [string, () => readonly string[], RegExp])[] = [
    ['a context that does not exist', () => ['--to', 'nowhere'], /nowhere/],
    [
      'a bundle that is not JSON',
      () => {
        scene.writeConfig('b.json', 'not JSON');
        return ['--to-bundle', 'b.json'];
      },
      /bundle of b\.example: it is not a JSON object/,
    ],
    [
      'a bundle of another trust domain',
      () => {
        scene.writeConfig('b.json', documentOf(rootOf('evil.example')));
        return ['--to-bundle', 'b.json'];
      },
      /authority of spiffe:\/\/evil\.example/,
    ],
    [
      'a published bundle of another trust domain',
      () => {
        kubes.b.put(mapPath, { data: { 'bundle.crt': rootOf('evil.example').pem } });
        return [];
      },
      /authority of spiffe:\/\/evil\.example/,
    ],
    [
      'a published bundle that is empty',
      () => {
        kubes.b.put(mapPath, { data: { 'bundle.crt': '' } });
        return [];
      },
      /no X\.509 authority/,
    ],
    [
      'a published bundle that is no certificate',
      () => {
        const pem = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
        kubes.b.put(mapPath, { data: { 'bundle.crt': pem } });
        return [];
      },
      /Cannot use the trust bundle of b\.example/,
    ],
    [
      'a server that has not published its bundle',
      () => {
        kubes.b.put(mapPath, {});
        return [];
      },
      /no trust bundle in the ConfigMap spire\/spire-bundle/,
    ],
    ['a file that does not exist', () => ['--from-bundle', 'none.json'], /none\.json/],
    [
      'no SpireServer',
      () => {
        kubes.b.objects.delete(serverPath);
        return [];
      },
      /context b has no SpireServer/,
    ],
    [
      'no federation',
      () => {
        kubes.b.put(serverPath, spireServer(undefined, { trustDomain: 'b.example' }));
        return [];
      },
      /no spec\.federation/,
    ],
    [
      'two clusters with one trust domain',
      () => {
        putServer('b', 'a.example');
        kubes.b.put(mapPath, { data: { 'bundle.crt': bundles.a.pem } });
        return [];
      },
      /Both clusters have the trust domain a\.example/,
    ],
    [
      'an endpoint that nothing names',
      () => {
        putServer('b', 'b.example', { exposure: { type: 'None' } });
        return [];
      },
      /Add --to-url/,
    ],
    ['a URL without TLS', () => ['--to-url', 'http://b.example/'], /--to-url must be an https URL/],
    [
      'a URL with a password',
      () => ['--from-url', 'https://u:p@a.example/'],
      /--from-url must be an https URL/,
    ],
  ];
  for (const [what, prepare, message] of refused) {
    test(`refuses ${what}, and changes nothing`, async () => {
      const { error, questions } = await bootstrap(...prepare());
      assert.match(error?.message ?? '', message);
      assert.deepEqual(questions, []);
      for (const name of ['a', 'b'] as const) assert.deepEqual(specs(name), []);
    });
  }

  test('says what is done when a cluster disappears midway, and goes on when repeated', async () => {
    otherwise = (name, { method }) =>
      name === 'a' && method === 'POST' ? failure(503, 'Unavailable', 'gone') : undefined;
    const { error } = await bootstrap();
    assert.match(error?.message ?? '', /gone.*b has the bundle of a\.example already\. Repeat/);
    otherwise = (_name, { method }) => (method === 'PATCH' ? patched : undefined);
    assert.equal((await bootstrap()).error, undefined);
    assert.equal(specs('a').length, 1);
    assert.equal(specs('b').length, 1);
  });

  test('says so where the CRD of another operator drops the bundle', async () => {
    otherwise = (_name, { method, path, body }) => {
      if (path.startsWith(collection)) return failure(404, 'NotFound', 'no such kind');
      if (method !== 'PUT') return undefined;
      return { status: 200, body: { ...body, spec: {} } };
    };
    const { error } = await bootstrap();
    assert.match(error?.message ?? '', /has no field for a trust bundle/);
  });
});
