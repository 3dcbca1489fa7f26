// Tests `hansa cluster add` with an HTTPS server that plays the API server.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { HansaError } from '../../core/errors/error.ts';
import { serve, stopServers, testCa } from '../../core/kube/test-api-server.ts';
import { runCluster, type TestSiteOptions } from './test-site.ts';

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const issuer = 'https://kubernetes.default.svc';
const tokenOf = (claims: object): string => `${part({ alg: 'RS256' })}.${part(claims)}.c2ln`;
const accountTokenIn = (namespace: string): string =>
  tokenOf({
    iss: issuer,
    sub: `system:serviceaccount:${namespace}:hansa`,
    aud: [issuer, 'extra'],
    exp: 4_000_000_000,
  });
const accountToken = accountTokenIn('kube-fed');

interface Call {
  readonly line: string;
  readonly isDryRun: boolean;
  readonly body: string;
}

type Answer = { readonly status: number; readonly body: unknown } | undefined;

/** An API server that accepts everything, except where `answer` says otherwise. */
async function kubeWith(answer: (call: Call) => Answer = () => undefined) {
  const calls: Call[] = [];
  const server = await serve((request, response) => {
    void handle(request, response);
  });
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await readAll(request);
    const url = new URL(request.url ?? '', 'https://localhost');
    const isDryRun = url.searchParams.get('dryRun') === 'All';
    const call = { line: `${request.method} ${url.pathname}`, isDryRun, body };
    calls.push(call);
    const { status, body: sent } = answer(call) ?? usual(call);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(sent));
  };
  return { calls, server: server.endpoint.server.href };
}

async function readAll(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}

function usual({ line, body }: Call): { readonly status: number; readonly body: unknown } {
  if (line.startsWith('PATCH ')) return { status: 200, body: JSON.parse(body) as unknown };
  if (line === 'GET /.well-known/openid-configuration') return { status: 200, body: { issuer } };
  if (line.endsWith('/serviceaccounts/hansa/token')) {
    const sent = JSON.parse(body) as { readonly metadata: { readonly namespace: string } };
    const token = accountTokenIn(sent.metadata.namespace);
    return { status: 201, body: { ...sent, status: { token } } };
  }
  return failure(404, 'NotFound', 'not found');
}

const failure = (code: number, reason: string, message: string) => ({
  status: code,
  body: { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message },
});

suite('hansa cluster add', () => {
  let folder = '';
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'hansa-add-'));
  });
  after(async () => {
    await stopServers();
    rmSync(folder, { recursive: true });
  });

  const add = (
    server: string,
    args: readonly string[] = [],
    site: TestSiteOptions = {},
    more = {},
  ) => {
    const cluster = {
      server,
      'certificate-authority-data': Buffer.from(testCa).toString('base64'),
      ...more,
    };
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: { token: 'admin-token' } }],
      contexts: [{ name: 'prod', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'prod',
    };
    writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(config));
    const answer = () => ({ cluster: 'app1', type: 'token', expiresAt: '2027-01-01T00:00:00Z' });
    return runCluster(['add', 'app1', '--kubeconfig', 'kubeconfig', ...args], {
      answer,
      ...site,
      io: { cwd: folder, env: {} },
    });
  };

  test('shows what it creates, asks, creates it, and registers the cluster', async () => {
    const kube = await kubeWith();
    const done = await add(kube.server);
    assert.equal(done.error, undefined);
    assert.match(done.notes, /ServiceAccount kube-fed\/hansa/);
    assert.match(done.notes, /may create tokenreviews\.authentication\.k8s\.io/);
    assert.match(done.notes, /may create serviceaccounts\/token, only hansa/);
    assert.deepEqual(done.questions, ['Add app1?']);
    const applied = kube.calls.filter(
      ({ line, isDryRun }) => line.startsWith('PATCH') && !isDryRun,
    );
    assert.deepEqual(
      applied.map(({ line }) => line.split('/').slice(-2).join('/')),
      [
        'namespaces/kube-fed',
        'serviceaccounts/hansa',
        'clusterroles/hansa-token-reviewer',
        'clusterrolebindings/hansa-token-reviewer-lubeck.example',
        'roles/hansa-own-token',
        'rolebindings/hansa-own-token',
        'roles/hansa-ca',
        'rolebindings/hansa-ca',
        'configmaps/hansa-ca',
      ],
    );
    assert.deepEqual(
      done.applied.map(({ options }) => [options.dryRun ?? false, options.fieldManager]),
      [
        [true, 'hansa-cluster-add'],
        [false, 'hansa-cluster-add'],
      ],
    );
    assert.deepEqual(done.applied.at(-1)?.object['spec'], {
      issuer,
      apiServer: kube.server.replace(/\/$/, ''),
      caBundle: testCa,
      apiAudiences: [issuer, 'extra'],
    });
    const put = done.requests.find(({ method }) => method === 'PUT');
    assert.deepEqual(put?.body, { token: accountToken, apiServer: kube.server.replace(/\/$/, '') });
    assert.equal(done.printed, 'app1 added, credential until 2027-01-01T00:00:00Z');
    for (const secret of [accountToken, 'admin-token', 'c2ln']) {
      assert.ok(!`${done.printed}${done.notes}`.includes(secret), 'prints no credential');
    }
  });

  test('with --dry-run prints manifests that kubectl and hansa accept, and changes nothing', async () => {
    const kube = await kubeWith();
    const done = await add(kube.server, ['--dry-run', '--mode', 'jwks', '--local']);
    const kinds = parseAllDocuments(done.printed).map(
      (document) => (document.toJS() as { kind: string }).kind,
    );
    assert.equal(kinds[0], 'Namespace');
    assert.equal(kinds.at(-1), 'Cluster');
    assert.match(done.printed, /mode: jwks/);
    assert.match(done.printed, /local: true/);
    assert.deepEqual(done.applied, []);
    assert.deepEqual(done.questions, []);
    assert.ok(kube.calls.every(({ line }) => line.startsWith('GET ')));
  });

  test('takes no token of another account, by which another cluster could prove its keys', async () => {
    const kube = await kubeWith(({ line, body }) =>
      line.endsWith('/token')
        ? {
            status: 201,
            body: {
              ...(JSON.parse(body) as object),
              status: { token: accountTokenIn('tenant') },
            },
          }
        : undefined,
    );
    const done = await add(kube.server, []);
    assert.match(String(done.error), /returned one of another account/);
    assert.ok(!done.requests.some(({ method }) => method === 'PUT'));
  });

  test('takes the issuer from the token where the API server does not publish it', async () => {
    const kube = await kubeWith(({ line }) =>
      line.includes('openid-configuration') ? failure(403, 'Forbidden', 'no') : undefined,
    );
    const done = await add(kube.server, ['--no-publish-ca', '--namespace', 'sites']);
    const spec = done.applied.at(-1)?.object['spec'] as { readonly issuer: string };
    assert.equal(spec.issuer, issuer);
    assert.ok(
      kube.calls.some(({ line }) => line.includes('/namespaces/sites/serviceaccounts/hansa')),
    );
    assert.ok(!kube.calls.some(({ line }) => line.includes('configmaps')));
  });

  test('without a right says which, before it changes anything', async () => {
    const why =
      'clusterroles.rbac.authorization.k8s.io "hansa-token-reviewer" is forbidden: User "u" cannot patch resource "clusterroles"';
    const kube = await kubeWith(({ line }) =>
      line.includes('/clusterroles/') ? failure(403, 'Forbidden', why) : undefined,
    );
    const done = await add(kube.server);
    assert.equal(done.error?.code, 'HANSA_FORBIDDEN');
    assert.match(
      done.error?.message ?? '',
      /cannot patch resource "clusterroles".*Nothing was changed/,
    );
    assert.deepEqual(done.questions, []);
    assert.ok(kube.calls.every(({ line, isDryRun }) => line.startsWith('GET ') || isDryRun));
  });

  test('that fails half-way says what exists and how to go on', async () => {
    const kube = await kubeWith(({ line, isDryRun }) =>
      line.includes('/rolebindings/') && !isDryRun
        ? failure(500, 'InternalError', 'oops')
        : undefined,
    );
    const done = await add(kube.server);
    assert.match(
      done.error?.message ?? '',
      /Cannot create RoleBinding kube-fed\/hansa-own-token .*oops.* The cluster has Namespace kube-fed, .*run the command again/,
    );
    assert.equal(done.applied.filter(({ options }) => options.dryRun !== true).length, 0);
  });

  test('that cannot get a token, or cannot store it, says what exists', async () => {
    const denied = await kubeWith(({ line }) =>
      line.endsWith('/token')
        ? failure(403, 'Forbidden', 'cannot create serviceaccounts/token')
        : undefined,
    );
    const first = await add(denied.server);
    assert.equal(first.error?.code, 'HANSA_FORBIDDEN');
    assert.match(first.error?.message ?? '', /ServiceAccount kube-fed\/hansa and its RBAC exist/);
    const kube = await kubeWith();
    const second = await add(kube.server, [], {
      answer: () => {
        throw new HansaError('HANSA_FORBIDDEN', 'no right.');
      },
    });
    assert.match(second.error?.message ?? '', /no right\. .* only the credential is missing/);
  });

  test('refuses a token that is none', async () => {
    for (const token of [undefined, 5, 'opaque', tokenOf({ sub: 'x' })]) {
      const kube = await kubeWith(({ line, body }) =>
        line.endsWith('/token')
          ? { status: 201, body: { ...(JSON.parse(body) as object), status: { token } } }
          : undefined,
      );
      const { error } = await add(kube.server);
      assert.match(error?.message ?? '', /returned no ServiceAccount token/);
    }
  });

  test('asks for --force-conflicts where another program manages a field', async () => {
    const kube = await kubeWith(({ line }) =>
      line.includes('/serviceaccounts/hansa') && line.startsWith('PATCH')
        ? failure(409, 'Conflict', 'conflict with "kubectl"')
        : undefined,
    );
    const { error } = await add(kube.server);
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(error?.message ?? '', /kubectl.*--force-conflicts/);
  });

  test('leaves the ConfigMap of another site alone', async () => {
    const kube = await kubeWith(({ line }) =>
      line === 'GET /api/v1/namespaces/kube-fed/configmaps/hansa-ca'
        ? {
            status: 200,
            body: { metadata: { labels: { 'hansa.dev/trust-domain': 'bruges.example' } } },
          }
        : undefined,
    );
    const done = await add(kube.server);
    assert.match(done.notes, /hansa-ca stays as it is: it belongs to bruges\.example/);
    // The Role and its binding neither: the other site would lose its right to update the ConfigMap.
    assert.ok(
      !kube.calls.some(({ line }) => line.startsWith('PATCH') && line.endsWith('/hansa-ca')),
    );
  });

  test('does not take the ServiceAccount of another site, and names a namespace to use instead', async () => {
    const account = (owner: string) =>
      kubeWith(({ line }) =>
        line === 'GET /api/v1/namespaces/kube-fed/serviceaccounts/hansa'
          ? { status: 200, body: { metadata: { labels: { 'hansa.dev/trust-domain': owner } } } }
          : undefined,
      );
    const kube = await account('bruges.example');
    const { error, applied } = await add(kube.server);
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(
      error?.message ?? '',
      /kube-fed\/hansa of the cluster belongs to the site bruges\.example\. .*--namespace hansa-lubeck/,
    );
    assert.deepEqual(applied, []);
    assert.ok(kube.calls.every(({ line }) => line.startsWith('GET ')));
    const elsewhere = await add(kube.server, ['--namespace', 'hansa-lubeck']);
    assert.equal(elsewhere.error, undefined);
    const own = await account('lubeck.example');
    assert.equal((await add(own.server)).error, undefined);
  });

  const known = (spec: object) => ({
    clusters: [{ metadata: { name: 'app1' }, spec: { issuer, local: true, ...spec } }],
  });

  test('repeated keeps the mode and local, and is an update', async () => {
    const kube = await kubeWith();
    const apiServer = kube.server.replace(/\/$/, '');
    const site = known({ apiServer, validation: { mode: 'tokenreview' } });
    const done = await add(kube.server, [], site);
    assert.equal(done.error, undefined);
    const spec = done.applied.at(-1)?.object['spec'] as Readonly<Record<string, unknown>>;
    assert.deepEqual(spec['validation'], { mode: 'tokenreview' });
    assert.equal(spec['local'], true);
    assert.match(done.printed, /^app1 updated/);
  });

  test('refuses the name of another cluster, and one with another source of credentials', async () => {
    const kube = await kubeWith();
    const other = await add(kube.server, [], known({ apiServer: 'https://other.example' }));
    assert.equal(other.error?.code, 'HANSA_CONFLICT');
    assert.match(other.error?.message ?? '', /hansa cluster remove app1/);
    const file = await add(kube.server, [], known({ credential: { tokenFile: 'app1/token' } }));
    assert.match(file.error?.message ?? '', /takes the credential from tokenFile/);
    assert.deepEqual(kube.calls, []);
  });

  test('reports where the site itself cannot use the cluster', async () => {
    const kube = await kubeWith();
    const done = await add(kube.server, [], {
      findings: { app1: [{ check: 'TCP', level: 'problem', text: 'connection refused' }] },
    });
    assert.equal(done.error?.code, 'HANSA_UNHEALTHY');
    assert.match(
      done.error?.message ?? '',
      /is registered, but .*TCP: connection refused.*doctor --cluster app1/,
    );
  });

  test('refuses insecure-skip-tls-verify', async () => {
    const more = { 'insecure-skip-tls-verify': true, 'certificate-authority-data': undefined };
    const { error, requests } = await add('https://localhost:1', [], {}, more);
    assert.equal(error?.code, 'HANSA_USAGE');
    assert.match(error?.message ?? '', /insecure-skip-tls-verify/);
    assert.deepEqual(requests, []);
  });

  test('says so where the API server cannot be reached, or has another CA', async () => {
    const down = await add('https://localhost:1');
    assert.equal(down.error?.code, 'HANSA_UNREACHABLE');
    const kube = await kubeWith();
    const ca = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    const data = { 'certificate-authority-data': Buffer.from(ca).toString('base64') };
    const { error } = await add(kube.server, [], {}, data);
    assert.ok(error !== undefined);
    assert.deepEqual(kube.calls, []);
  });
});
