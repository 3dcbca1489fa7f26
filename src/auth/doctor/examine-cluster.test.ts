import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeCredential, KubeRequest } from '../../core/kube/kube-client.ts';
import { unreachable } from '../../core/kube/kube-errors.ts';
import type { Finding } from '../../core/plane/doctor.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { ClusterKeys, KeySet } from '../keys/cluster-keys.ts';
import type { Verdict } from '../review/verdict.ts';
import { examineCluster } from './examine-cluster.ts';

const issuer = 'https://kubernetes.default.svc';
const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const tokenBy = (iss: string): string =>
  `${part({ alg: 'RS256' })}.${part({ iss, sub: 'system:serviceaccount:kube-fed:hansa' })}.c2ln`;

type Answer = { readonly status: number; readonly body?: unknown };

interface World {
  readonly spec?: object;
  readonly mode?: ReviewedCluster['mode'];
  readonly credential?: KubeCredential | HansaError;
  /** Whether the site renews the credential. Default: true. */
  readonly isRenewed?: boolean;
  /** By path; the rest is as a healthy API server answers. */
  readonly answers?: Readonly<Record<string, Answer | Error>>;
  readonly addresses?: readonly string[] | Error;
  readonly keys?: HansaError;
  readonly verdict?: Verdict | Error;
  readonly skewMs?: number;
}

const access = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
const self = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
const discovery = '/.well-known/openid-configuration';
const username = 'system:serviceaccount:kube-fed:hansa';
const healthy: Readonly<Record<string, Answer>> = {
  '/version': { status: 200, body: {} },
  [self]: { status: 201, body: { status: { userInfo: { username } } } },
  [access]: { status: 201, body: { status: { allowed: true } } },
  [discovery]: { status: 200, body: { issuer } },
};

async function examine(world: World = {}) {
  const clock = new VirtualClock();
  const asked: KubeRequest[] = [];
  const client = {
    request: async (request: KubeRequest) => {
      asked.push(request);
      const answer = world.answers?.[request.path] ?? healthy[request.path];
      if (answer instanceof Error) throw answer;
      const body = Buffer.from(JSON.stringify(answer?.body) ?? '');
      const date = new Date(clock.now() + (world.skewMs ?? 0)).toUTCString();
      return { status: answer?.status ?? 404, headers: { date }, body };
    },
  } as unknown as KubeClient;
  const spec = { issuer, apiServer: 'https://app1.example:6443', caBundle: 'PEM', ...world.spec };
  const keySet = {
    keys: [{ provenAtMs: 0 }],
    from: 'apiServer',
    fetchedAtMs: clock.now(),
  } as unknown as KeySet;
  const keys: ClusterKeys = {
    current: () => (world.keys === undefined ? keySet : undefined),
    refresh: async () => {
      throw world.keys ?? new Error('not asked');
    },
  };
  const findings = await examineCluster(
    {
      clock,
      keys,
      lookUp: async () => {
        if (world.addresses instanceof Error) throw world.addresses;
        return world.addresses ?? ['192.0.2.1', '192.0.2.2'];
      },
      reviewer: {
        review: () => {
          if (world.verdict instanceof Error) throw world.verdict;
          return (
            world.verdict ?? {
              authenticated: true,
              user: { username, uid: '', groups: [], extra: {} },
              audiences: [],
              expiresAtMs: 0,
            }
          );
        },
      },
    },
    {
      object: { metadata: { name: 'app1' }, spec } as unknown as Cluster,
      reviewed: {
        name: 'app1',
        issuer,
        mode: world.mode ?? 'hybrid',
        client: spec.apiServer === undefined ? undefined : client,
      } as unknown as ReviewedCluster,
      credentials: {
        renew:
          world.isRenewed === false
            ? undefined
            : { intervalMs: 3_600_000, durationSeconds: 604_800, renewBeforeMs: 172_800_000 },
        current: () => {
          if (world.credential instanceof HansaError) throw world.credential;
          return world.credential ?? { type: 'token', token: tokenBy(issuer) };
        },
      },
    },
  );
  return { findings, asked, lines: findings.map(lineOf) };
}

const lineOf = ({ check, level, text }: Finding): string => `${level} ${check}: ${text}`;

suite('the examination of a cluster', () => {
  test('goes through all steps of a healthy one', async () => {
    const { lines, asked } = await examine();
    assert.deepEqual(lines, [
      'ok DNS: app1.example → 192.0.2.1, 192.0.2.2',
      'ok TCP: app1.example:6443 answers in 1 ms',
      'ok TLS: a certificate for app1.example, signed by the CA of the Cluster',
      'ok clock: agrees with the API server',
      `ok credential: accepted as ${username}`,
      'ok rights: may create tokenreviews.authentication.k8s.io',
      'ok rights: may create serviceaccounts/token of kube-fed/hansa',
      `ok issuer: ${issuer}, as the API server says`,
      'ok keys: 1 key from the API server, fetched 0s ago',
      `ok review: its own token is ${username}`,
    ]);
    assert.ok(asked.every(({ timeoutMs, maxBytes }) => timeoutMs !== undefined && maxBytes));
  });

  test('of a cluster without an API server looks at its keys only', async () => {
    const { lines } = await examine({ spec: { apiServer: undefined }, mode: 'jwks' });
    assert.match(lines[0] ?? '', /^ok API server: none/);
    assert.match(lines[1] ?? '', /^ok keys/);
    assert.match(lines[2] ?? '', /^ok review: not tried/);
  });

  test('does not ask for the right to renew a token that others renew', async () => {
    const { lines } = await examine({ isRenewed: false });
    assert.ok(!lines.some((line) => line.includes('serviceaccounts/token')), lines.join('\n'));
    assert.ok(lines.includes('ok rights: may create tokenreviews.authentication.k8s.io'));
  });

  test('reviews no token of another issuer, and no certificate', async () => {
    for (const credential of [
      { type: 'token', token: tokenBy('https://other.example') },
      { type: 'token', token: 'opaque' },
      { type: 'certificate', certificate: 'c', key: 'k' },
    ] as const) {
      const { lines } = await examine({ credential });
      assert.match(lines.at(-1) ?? '', /^ok review: not tried/);
    }
  });

  test('never shows the token', async () => {
    const { findings } = await examine({ verdict: { authenticated: false, error: 'no' } });
    assert.ok(!JSON.stringify(findings).includes('c2ln'));
  });

  const refused = { status: 201, body: { status: { allowed: false } } };
  const where = 'app1.example:6443';
  const failures: readonly (readonly [string, World, RegExp, RegExp])[] = [
    [
      'an unknown name',
      { addresses: new Error('x') },
      /^problem DNS: app1.example cannot/,
      /hosts/,
    ],
    [
      'a closed port',
      { answers: { '/version': unreachable(where, 'refused', 'connection refused') } },
      /^problem TCP: .*refused/,
      /firewall/,
    ],
    [
      'a broken handshake',
      { answers: { '/version': unreachable(where, 'tls', 'the TLS handshake failed') } },
      /^problem TLS/,
      /another program/,
    ],
    [
      'another CA',
      { answers: { '/version': new HansaError('HANSA_CERTIFICATE_INVALID', 'unknown CA') } },
      /^problem TLS: unknown CA/,
      /caFile or caBundle.*app1\.example/,
    ],
    [
      'a broken proxy',
      { answers: { '/version': unreachable(where, 'proxy', 'it refuses') } },
      /^problem proxy/,
      /spec\.proxyURL/,
    ],
    [
      'another server',
      { answers: { '/version': unreachable(where, 'protocol', 'it redirects') } },
      /^problem HTTP/,
      /spec\.apiServer/,
    ],
    [
      'no credential',
      { answers: { '/version': new HansaError('HANSA_UNAVAILABLE', 'no credential') } },
      /^problem credential: no credential/,
      /hansa cluster credential set app1/,
    ],
    [
      'a server in trouble',
      { answers: { '/version': { status: 503 } } },
      /^problem HTTP: .*503/,
      /log/,
    ],
    [
      'a revoked stored credential',
      { answers: { '/version': { status: 401 } } },
      /^problem credential: .*401/,
      /hansa cluster add app1 again/,
    ],
    [
      'a revoked token of a file',
      { answers: { [self]: { status: 401 } }, spec: { credential: { tokenFile: 'app1/token' } } },
      /^problem credential/,
      /app1\/token below auth\.credentialsDir/,
    ],
    [
      'a JWT-SVID that is not trusted',
      {
        answers: { [self]: { status: 401 } },
        spec: { credential: { jwtSVID: { audience: 'a' } } },
      },
      /^problem credential/,
      /hansa cluster auth-config app1/,
    ],
    [
      'missing rights',
      { answers: { [access]: refused } },
      /^problem rights: may not create/,
      /RBAC/,
    ],
    [
      'another issuer',
      { answers: { [discovery]: { status: 200, body: { issuer: 'https://x\u001b' } } } },
      /^problem issuer: .* says https:\/\/x$/,
      /spec\.issuer/,
    ],
    [
      'no keys',
      { keys: new HansaError('HANSA_UNAVAILABLE', 'no keys') },
      /^problem keys: no keys/,
      /publishes/,
    ],
    [
      'a denied token',
      { verdict: { authenticated: false, error: 'token audiences do not match' } },
      /^problem review: its own token is denied: token audiences/,
      /spec\.apiAudiences/,
    ],
    [
      'a review that cannot be made',
      { verdict: new HansaError('HANSA_UNAVAILABLE', 'busy') },
      /^problem review: busy/,
      /now/,
    ],
    ['a clock an hour ahead', { skewMs: 3_600_000 }, /^problem clock: .*60m ahead of/, /NTP/],
    ['a clock an hour behind', { skewMs: -3_600_000 }, /^problem clock: .* behind/, /NTP/],
  ];
  for (const [what, world, line, remedy] of failures) {
    test(`finds ${what}, and says what to do`, async () => {
      const { findings } = await examine(world);
      const found = findings.find(({ level }) => level === 'problem');
      assert.match(found === undefined ? '' : lineOf(found), line);
      assert.match(found?.remedy ?? '', remedy);
    });
  }

  test('only warns of what reviews can do without', async () => {
    for (const [world, line] of [
      [{ skewMs: 20_000 }, /^warning clock/],
      [{ answers: { [discovery]: { status: 403 } } }, /^warning issuer: not published/],
      [{ answers: { [access]: { status: 404 } } }, /^warning rights: .*does not say/],
      [
        { answers: { [access]: refused }, mode: 'jwks' },
        /^warning rights: .*serviceaccounts\/token/,
      ],
    ] as const) {
      const { findings, lines } = await examine(world);
      assert.ok(!findings.some(({ level }) => level === 'problem'), lines.join('\n'));
      assert.ok(
        lines.some((each) => line.test(each)),
        lines.join('\n'),
      );
    }
  });

  test('survives answers that are no JSON', async () => {
    const garbage = { status: 200, body: undefined };
    const { lines } = await examine({
      answers: { [self]: garbage, [access]: { status: 201 }, [discovery]: garbage },
    });
    assert.ok(lines.includes('ok credential: accepted (the API server does not say as whom: 200)'));
    assert.ok(lines.some((line) => /^problem issuer: .*no issuer/.test(line)));
  });
});
