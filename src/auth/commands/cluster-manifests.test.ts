import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { runCluster } from './test-site.ts';

interface Document {
  readonly kind: string;
  readonly metadata?: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
}

const documentsIn = (text: string): readonly Document[] =>
  parseAllDocuments(text).map((document) => document.toJS() as Document);

const clusters = [
  {
    metadata: { name: 'app1' },
    spec: { issuer: 'i', credential: { inCluster: false, jwtSVID: { audience: 'https://app1' } } },
  },
  { metadata: { name: 'app2' }, spec: { issuer: 'i' } },
];

suite('hansa cluster services', () => {
  test('prints one Service for each cluster, with the address of the api listener', async () => {
    const { printed } = await runCluster(['services'], { clusters });
    const documents = documentsIn(printed);
    assert.deepEqual(
      documents.filter(({ kind }) => kind === 'Service').map(({ metadata }) => metadata?.name),
      ['api', 'app1', 'app2'],
    );
    assert.ok(
      documents.every(
        ({ kind, metadata }) => kind === 'Namespace' || metadata?.namespace === 'kube-fed',
      ),
    );
    assert.match(printed, /10\.0\.0\.5/);
    assert.match(printed, /port: 7443/);
  });

  test('uses the addresses, port and namespace of the flags', async () => {
    const args = ['services', '--address', '192.0.2.7', 'fd00::7', '--port', '443'];
    const { printed } = await runCluster([...args, '--namespace', 'fed'], { clusters });
    assert.match(printed, /192\.0\.2\.7/);
    assert.match(printed, /fd00::7/);
    assert.match(printed, /port: 443/);
    assert.match(printed, /namespace: fed/);
  });

  test('warns where the site does not listen on the address', async () => {
    const args = ['services', '--address', '192.0.2.7'];
    for (const listener of ['https://127.0.0.1:7443', 'https://[::1]:7443']) {
      const { printed, notes } = await runCluster(args, { clusters, listener });
      assert.match(notes, /Pods cannot reach it\. Start the site with --api 0\.0\.0\.0:7443/);
      assert.match(printed, /192\.0\.2\.7/);
      // A proxy has that port.
      assert.equal(
        (await runCluster([...args, '--port', '443'], { clusters, listener })).notes,
        '',
      );
    }
    assert.equal(
      (await runCluster(args, { clusters, listener: 'https://0.0.0.0:7443' })).notes,
      '',
    );
  });

  test('prints one List with -o json', async () => {
    const { printed } = await runCluster(['services', '-o', 'json'], { clusters });
    const { kind, items } = JSON.parse(printed) as { kind: string; items: unknown[] };
    assert.equal(kind, 'List');
    assert.ok(items.length > 6);
  });

  test('refuses addresses that endpoints cannot have, and domains that Services cannot make', async () => {
    const name = await runCluster(['services', '--address', 'lubeck.example'], { clusters });
    assert.equal(name.error?.code, 'HANSA_BAD_REQUEST');
    const domain = await runCluster(['services'], { info: { baseDomain: 'fed.example' } });
    assert.equal(domain.error?.code, 'HANSA_USAGE');
    assert.match(domain.error?.message ?? '', /Add such names to your DNS/);
  });
});

suite('hansa cluster auth-config', () => {
  const info = { jwtIssuer: 'https://oidc.lubeck.example' };

  test('prints the configuration of the API server, and RBAC', async () => {
    const { printed } = await runCluster(['auth-config', 'app1'], { clusters, info });
    const [configuration, ...access] = documentsIn(printed);
    assert.equal(configuration?.kind, 'AuthenticationConfiguration');
    assert.match(printed, /- https:\/\/app1\n/);
    assert.ok(access.some(({ kind }) => kind === 'ClusterRoleBinding'));
  });

  test('prints one part with --part', async () => {
    const args = ['auth-config', '--audience', 'a', '--part'];
    const { printed: only } = await runCluster([...args, 'configuration'], { info });
    assert.equal(documentsIn(only).length, 1);
    const { printed: access } = await runCluster([...args, 'access'], { info });
    assert.ok(!access.includes('AuthenticationConfiguration'));
  });

  for (const [what, args, site, why] of [
    ['no audience', ['auth-config'], { info }, /add --audience/],
    [
      'a cluster without jwtSVID',
      ['auth-config', 'app2'],
      { clusters, info },
      /no spec\.credential/,
    ],
    [
      'another audience',
      ['auth-config', 'app1', '--audience', 'b'],
      { clusters, info },
      /audience of app1 is https:\/\/app1/,
    ],
    ['no issuer', ['auth-config', '--audience', 'a'], {}, /Set jwt\.issuer/],
    [
      'a missing CA file',
      ['auth-config', '--audience', 'a', '--issuer-ca-file', '/nowhere/ca.pem'],
      { info },
      /Cannot read \/nowhere\/ca\.pem/,
    ],
  ] as const) {
    test(`with ${what} is refused`, async () => {
      const { error } = await runCluster(args, site);
      assert.match(error?.message ?? '', why);
    });
  }
});
