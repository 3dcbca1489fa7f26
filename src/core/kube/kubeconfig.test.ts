import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { stringify } from 'yaml';
import { hasCode } from '../errors/error.ts';
import { contextOfServer, type KubeconfigContext, readKubeconfig } from './kubeconfig.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const server = 'https://app1.example:6443';

interface Parts {
  readonly cluster?: object;
  readonly user?: object;
  readonly context?: object;
  readonly extra?: object;
}

const config = ({ cluster = {}, user = {}, context = {}, extra = {} }: Parts = {}): object => ({
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'one',
  contexts: [{ name: 'one', context: { cluster: 'c', user: 'u', ...context } }],
  clusters: [{ name: 'c', cluster: { server, ...cluster } }],
  users: [{ name: 'u', user }],
  ...extra,
});

const read = (value: object | string, context?: string): KubeconfigContext =>
  readKubeconfig(
    [
      {
        path: '/x/kube/config',
        text: typeof value === 'string' ? value : stringify(value),
      },
    ],
    context,
  );

const refused = (value: object | string, pattern: RegExp, context?: string): void => {
  assert.throws(
    () => read(value, context),
    (caught) => {
      assert.ok(hasCode(caught, 'HANSA_USAGE'), String(caught));
      assert.match(caught.message, pattern);
      assert.doesNotMatch(caught.message, /hunter2/);
      return true;
    },
  );
};

suite('a kubeconfig', () => {
  test('gives the cluster and the user of its current context', () => {
    const found = read(
      config({
        cluster: {
          'certificate-authority-data': base64('PEM'),
          'tls-server-name': 'inner.example',
          'proxy-url': 'http://proxy.example:3128',
        },
        user: { token: 'abc' },
        context: { namespace: 'ns' },
      }),
    );
    assert.deepEqual(found, {
      name: 'one',
      cluster: 'c',
      user: 'u',
      namespace: 'ns',
      server: new URL(server),
      ca: { type: 'text', text: 'PEM' },
      tlsServerName: 'inner.example',
      proxyURL: new URL('http://proxy.example:3128'),
      credential: { type: 'token', token: { type: 'text', text: 'abc' } },
    });
  });

  test('gives the context that is asked for', () => {
    const contexts = [
      { name: 'one', context: { cluster: 'c', user: 'u' } },
      { name: 'two', context: { cluster: 'c' } },
    ];
    const found = read(config({ extra: { contexts } }), 'two');
    assert.equal(found.name, 'two');
    assert.deepEqual(found.credential, { type: 'none' });
  });

  test('resolves paths against the folder of its file, and prefers data', () => {
    const user = { 'client-certificate': 'pki/a.crt', 'client-key': '/etc/a.key' };
    const { ca, credential } = read(
      config({ cluster: { 'certificate-authority': '../ca.crt' }, user }),
    );
    assert.deepEqual(ca, { type: 'file', path: '/x/ca.crt' });
    assert.deepEqual(credential, {
      type: 'certificate',
      certificate: { type: 'file', path: '/x/kube/pki/a.crt' },
      key: { type: 'file', path: '/etc/a.key' },
    });
    const both = { 'certificate-authority': 'ca.crt', 'certificate-authority-data': base64('X') };
    assert.deepEqual(read(config({ cluster: both })).ca, { type: 'text', text: 'X' });
  });

  test('prefers the file of a token, and a certificate to a token', () => {
    assert.deepEqual(read(config({ user: { token: 'a', tokenFile: 'token' } })).credential, {
      type: 'token',
      token: { type: 'file', path: '/x/kube/token' },
    });
    const certificate = {
      'client-certificate-data': base64('C'),
      'client-key-data': base64('K'),
      token: 'a',
    };
    assert.equal(read(config({ user: certificate })).credential.type, 'certificate');
  });

  test('names its exec plugin with everything that it needs', () => {
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1beta1',
      command: './bin/login',
      args: ['token', '--cluster=c'],
      env: [{ name: 'A', value: 'b' }],
      provideClusterInfo: true,
      installHint: 'Install it.',
    };
    const extensions = [
      { name: 'client.authentication.k8s.io/exec', extension: { audience: 'x' } },
    ];
    const { credential } = read(config({ user: { exec }, cluster: { extensions } }));
    assert.deepEqual(credential, {
      type: 'exec',
      plugin: {
        apiVersion: 'client.authentication.k8s.io/v1beta1',
        command: '/x/kube/bin/login',
        args: ['token', '--cluster=c'],
        env: [{ name: 'A', value: 'b' }],
        interactiveMode: 'IfAvailable',
        provideClusterInfo: true,
        installHint: 'Install it.',
        clusterConfig: { audience: 'x' },
      },
    });
  });

  test('looks a plugin without a slash up in PATH', () => {
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: 'aws',
      interactiveMode: 'Never',
    };
    const { credential } = read(config({ user: { exec } }));
    assert.ok(credential.type === 'exec' && credential.plugin.command === 'aws');
  });

  test('is JSON too', () => {
    assert.equal(read(JSON.stringify(config())).cluster, 'c');
  });
});

suite('several kubeconfigs', () => {
  const one = stringify({
    'current-context': 'one',
    contexts: [{ name: 'one', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server: 'https://first.example', 'tls-server-name': 'a' } }],
  });
  const two = stringify({
    'current-context': 'two',
    contexts: [{ name: 'two', context: { cluster: 'c' } }],
    clusters: [{ name: 'c', cluster: { server: 'https://second.example' } }],
    users: [{ name: 'u', user: { tokenFile: 'token' } }],
  });
  const files = [
    { path: '/a/config', text: one },
    { path: '/b/config', text: two },
  ];

  test('are merged: the first that has a name or value wins', () => {
    const found = readKubeconfig(files);
    assert.equal(found.name, 'one');
    assert.equal(found.server.host, 'first.example');
    assert.equal(readKubeconfig(files.toReversed()).name, 'two');
  });

  test('have paths relative to the file that has them', () => {
    assert.deepEqual(readKubeconfig(files).credential, {
      type: 'token',
      token: { type: 'file', path: '/b/token' },
    });
  });

  test('may be empty', () => {
    assert.equal(readKubeconfig([{ path: '/c', text: '# nothing\n' }, ...files]).name, 'one');
  });
});

suite('a kubeconfig is refused', () => {
  test('that skips the verification of the server, with what to do', () => {
    const cluster = { 'insecure-skip-tls-verify': true };
    refused(config({ cluster }), /always verifies the API server.*certificate-authority-data/);
    assert.equal(read(config({ cluster: { 'insecure-skip-tls-verify': false } })).name, 'one');
  });

  test('with a user name and a password', () => {
    refused(config({ user: { username: 'ann', password: 'hunter2' } }), /user name and password/);
    refused(config({ user: { password: 'hunter2' } }), /user name and password/);
  });

  test('with an auth-provider', () => {
    refused(config({ user: { 'auth-provider': { name: 'gcp' } } }), /auth-provider.*exec plugin/);
  });

  test('that impersonates another user', () => {
    refused(config({ user: { token: 'hunter2', as: 'root' } }), /impersonates another user \(as\)/);
    refused(config({ user: { 'as-groups': ['system:masters'] } }), /impersonates/);
  });

  test('whose server is missing, not https, or has user info', () => {
    refused(config({ cluster: { server: undefined } }), /has no server/);
    refused(config({ cluster: { server: 'not a url' } }), /server is not a URL/);
    refused(config({ cluster: { server: 'http://a.example' } }), /not https/);
    refused(config({ cluster: { server: 'https://u:hunter2@a.example' } }), /user or a password/);
  });

  test('whose proxy is not http, or has user info', () => {
    refused(config({ cluster: { 'proxy-url': 'socks5://p.example' } }), /neither http nor https/);
    refused(config({ cluster: { 'proxy-url': 'http://u:hunter2@p.example' } }), /user or a passw/);
  });

  test('with a certificate without a key', () => {
    refused(config({ user: { 'client-certificate-data': base64('C') } }), /has no client-key/);
    refused(config({ user: { 'client-key-data': base64('K') } }), /has no client-certificate/);
  });

  test('with data that is not base64', () => {
    refused(config({ cluster: { 'certificate-authority-data': '%%%' } }), /is not base64/);
    refused(config({ user: { 'client-key-data': '-----BEGIN hunter2' } }), /is not base64/);
  });

  test('with a plugin of an unknown version or without what it needs', () => {
    const exec = (fields: object): object =>
      config({
        user: {
          exec: {
            apiVersion: 'client.authentication.k8s.io/v1',
            command: 'x',
            interactiveMode: 'Never',
            ...fields,
          },
        },
      });
    refused(exec({ apiVersion: 'client.authentication.k8s.io/v1alpha1' }), /v1 and v1beta1/);
    refused(exec({ command: undefined }), /has no command/);
    refused(exec({ interactiveMode: undefined }), /has no interactiveMode/);
    refused(exec({ interactiveMode: 'Sometimes' }), /Use Never, IfAvailable or Always/);
    refused(exec({ args: 'x' }), /args is not a list/);
    refused(exec({ args: [1] }), /an item of args is not a text/);
    refused(exec({ env: [{ value: 'hunter2' }] }), /an item of env has no name/);
    refused(exec({ env: [{ name: 'A=B', value: '' }] }), /an item of env has no name/);
    refused(config({ user: { exec: 'x' } }), /exec is not an object/);
  });

  test('whose context does not exist, with those that do', () => {
    refused(config(), /no context "two".*--context: one/, 'two');
    refused(config({ extra: { 'current-context': '' } }), /no current context.*--context: one/);
    refused({ kind: 'Config' }, /It has no contexts/);
  });

  test('whose context names what does not exist', () => {
    refused(config({ context: { cluster: 'x' } }), /names the cluster "x", which does not exist/);
    refused(config({ context: { user: 'x' } }), /names the user "x", which does not exist/);
    refused(config({ context: { cluster: undefined } }), /has no cluster/);
  });

  test('that has a name twice', () => {
    const cluster = { name: 'c', cluster: { server } };
    refused(config({ extra: { clusters: [cluster, cluster] } }), /cluster "c" exists twice/);
  });

  test('that has other types than texts, lists and objects', () => {
    refused(config({ user: { token: 123 } }), /token is not a text/);
    refused(config({ extra: { users: {} } }), /users is not a list/);
    refused(config({ extra: { users: ['u'] } }), /an entry of users has no name/);
    refused(config({ extra: { clusters: [{ name: 'c', cluster: 'x' }] } }), /is not an object/);
  });

  test('that is no kubeconfig, without a quote of it', () => {
    refused('token: hunter2: x\n- y', /is not valid YAML/);
    refused('hunter2', /its kind is not Config/);
    refused({ kind: 'Secret' }, /its kind is not Config/);
    refused('['.repeat(20_000), /YAML/);
    refused('x'.repeat(1024 * 1024 + 1), /larger than/);
    const laughs = Array.from({ length: 9 }, (_, at) =>
      at === 0 ? 'a0: &a0 [x]' : `a${at}: &a${at} [${`*a${at - 1},`.repeat(10)}]`,
    );
    refused(laughs.join('\n'), /cannot be read as YAML/);
  });
});

suite('the context of an API server', () => {
  const other = 'https://app2.example:6443';
  const two = (current: string): object =>
    config({
      extra: {
        'current-context': current,
        clusters: [
          { name: 'c', cluster: { server: `${server}/` } },
          { name: 'd', cluster: { server: other } },
        ],
        contexts: [
          { name: 'viewer', context: { cluster: 'c', user: 'u' } },
          { name: 'admin', context: { cluster: 'c', user: 'u' } },
          { name: 'two', context: { cluster: 'd', user: 'missing' } },
          { name: 'empty', context: {} },
        ],
      },
    });
  const find = (value: object, wanted: string): string | undefined =>
    contextOfServer([{ path: '/x/kube/config', text: stringify(value) }], wanted);

  test('is the current one if that is for it, else the first', () => {
    assert.equal(find(two('admin'), server), 'admin');
    assert.equal(find(two('two'), server), 'viewer');
    assert.equal(find(two('viewer'), other), 'two');
  });

  test('is undefined where there is none', () => {
    assert.equal(find(two('two'), 'https://app3.example:6443'), undefined);
    assert.equal(find({}, server), undefined);
  });
});
