// Tests the commands of `hansa cluster` with a client that holds a few objects. test/interop/cluster-commands.test.ts
// runs them with a real site and a real API server.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { runCluster, type TestSiteOptions } from './test-site.ts';

const seconds = Math.trunc(Date.now() / 1000);

const condition = (type: string, status: string, message: string) => ({
  type,
  status,
  message,
  reason: 'R',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});

const app1 = {
  metadata: { name: 'app1', managedFields: [{ manager: 'hansa' }] },
  spec: {
    issuer: 'https://kubernetes.default.svc',
    apiServer: 'https://app1.example:6443',
    local: true,
    callers: {
      acceptAPIServerAudience: false,
      webhookAuthenticators: [{ caller: 'token:app2', prefix: 'app1:' }],
    },
  },
  status: {
    mode: 'hybrid',
    keys: 2,
    keysFetchedAt: '2026-01-01T00:00:00Z',
    credentialExpiresAt: '2026-01-02T00:00:00Z',
    conditions: [condition('Ready', 'False', 'why\u001b[31m and what to do')],
  },
};
const app2 = {
  metadata: { name: 'app2' },
  spec: { issuer: 'https://issuer.example', local: false },
  status: { mode: 'jwks', conditions: [condition('Ready', 'True', 'fine')] },
};
const site: TestSiteOptions = { clusters: [app1, app2] };

suite('hansa cluster list', () => {
  test('prints the table of the site, and what is wrong with clusters below it', async () => {
    const { printed, notes } = await runCluster(['list'], site);
    assert.match(printed, /"kind":"Table"/);
    assert.equal(notes, 'app1 is not ready: why�[31m and what to do');
  });

  test('prints names with -o name, and objects with -o json', async () => {
    assert.equal((await runCluster(['list', '-o', 'name'], site)).printed, 'app1\napp2');
    const { printed } = await runCluster(['list', '-o', 'json'], site);
    assert.equal((JSON.parse(printed) as { clusters: unknown[] }).clusters.length, 2);
    assert.ok(!printed.includes('managedFields'));
  });

  test('says how to register one where there is none', async () => {
    const { printed, notes } = await runCluster(['list']);
    assert.equal(printed, '');
    assert.match(notes, /hansa cluster add/);
  });
});

suite('hansa cluster show', () => {
  test('shows host names in each form, keys, credential and conditions', async () => {
    const { printed } = await runCluster(['show', 'app1'], site);
    for (const line of [
      /^cluster +app1 \(local\)$/m,
      /^mode +hybrid$/m,
      /^revocation lag +10 s$/m,
      /^host +api\.app1\.kube-fed\.svc\.cluster\.local$/m,
      /^host +api\.app1\.kube-fed\.svc$/m,
      /^local host +api\.kube-fed\.svc\.cluster\.local$/m,
      /^path +\/clusters\/app1\/apis\/authentication\.k8s\.io\/v1\/tokenreviews$/m,
      /^audiences +https:\/\/kubernetes\.default\.svc$/m,
      /^keys +2, fetched .+ ago$/m,
      /^credential +stored at the site, expired 2026-01-02T00:00:00Z \(.+ ago\)$/m,
      /^webhook +token:app2 gets the prefix app1:$/m,
      /^Ready +False, for .+: why/m,
    ])
      assert.match(printed, line);
    assert.ok(!printed.includes('\u001b'), 'no control characters of a site');
  });

  test('shows the lag where answers are reused, and only there', async () => {
    const shown = async (onUnreachable: string): Promise<string> => {
      const validation = { mode: 'tokenreview', maxRevocationLagSeconds: 30, onUnreachable };
      const spec = { ...app1.spec, validation };
      const status = { ...app1.status, mode: 'tokenreview' };
      return (await runCluster(['show', 'app1'], { clusters: [{ ...app1, spec, status }] }))
        .printed;
    };
    assert.match(await shown('allowUntilLag'), /^revocation lag +30 s$/m);
    assert.doesNotMatch(await shown('unavailable'), /revocation lag/);
  });

  test('shows a cluster without an API server', async () => {
    const { printed } = await runCluster(['show', 'app2'], site);
    assert.match(printed, /^credential +not needed$/m);
    assert.match(printed, /^keys +none yet$/m);
    assert.doesNotMatch(printed, /revocation lag|local host|API server/);
  });

  test('has the host names in -o json', async () => {
    const { printed } = await runCluster(['show', 'app2', '-o', 'json'], site);
    const { hosts } = JSON.parse(printed) as { hosts: { names: string[] } };
    assert.deepEqual(hosts.names, ['api.app2.kube-fed.svc.cluster.local', 'api.app2.kube-fed.svc']);
  });
});

for (const command of ['show', 'remove', 'check', 'auth-config']) {
  test(`hansa cluster ${command} of an unknown cluster says how to list them`, async () => {
    const { error } = await runCluster([command, 'nobody'], site);
    assert.equal(error?.code, 'HANSA_NOT_FOUND');
    assert.match(error?.message ?? '', /no cluster nobody.*hansa cluster list/);
  });
}

suite('hansa cluster remove', () => {
  test('says what ends, asks, and deletes the Cluster', async () => {
    const { questions, deleted, printed } = await runCluster(['remove', 'app1'], site);
    assert.match(
      questions[0] ?? '',
      /^Remove app1\? .* reviewing its tokens at once, and deletes its/,
    );
    assert.deepEqual(deleted, ['app1']);
    assert.equal(printed, 'app1 removed');
  });
});

suite('hansa cluster check', () => {
  const findings = {
    app1: [
      { check: 'DNS', level: 'ok', text: 'fine' },
      { check: 'rights', level: 'warning', text: 'meh' },
      { check: 'keys', level: 'problem', text: 'none', remedy: 'do it' },
    ],
    app2: [{ check: 'keys', level: 'ok', text: '2 keys' }],
  } as const;

  test('has one line for each cluster, and fails where one has a problem', async () => {
    const { printed, error } = await runCluster(['check'], { ...site, findings });
    assert.match(printed, /^✗ +app1 +keys: none$/m);
    assert.match(printed, /^✓ +app2 +2 keys$/m);
    assert.equal(error?.code, 'HANSA_UNHEALTHY');
    assert.match(error?.message ?? '', /1 of 2 clusters have .* hansa doctor --cluster app1/);
  });

  test('succeeds where the named cluster is well', async () => {
    const { error, printed } = await runCluster(['check', 'app2', 'app2', '-o', 'json'], {
      ...site,
      findings,
    });
    assert.equal(error, undefined);
    assert.equal((JSON.parse(printed) as { clusters: unknown[] }).clusters.length, 1);
  });

  test('says so where there are none', async () => {
    assert.match((await runCluster(['check'])).notes, /no clusters/);
  });
});

const encoded = (value: unknown): string =>
  Buffer.from(JSON.stringify(value)).toString('base64url');
const token = `${encoded({ alg: 'RS256' })}.${encoded({
  iss: 'https://kubernetes.default.svc',
  sub: 'system:serviceaccount:default:web',
  aud: ['db'],
  exp: seconds + 3600,
  'kubernetes.io': { namespace: 'default' },
})}.c2lnbmF0dXJl`;

suite('hansa cluster review', () => {
  const user = {
    username: 'system:serviceaccount:default:web',
    uid: 'u1',
    groups: ['system:serviceaccounts'],
    extra: { 'authentication.kubernetes.io/pod-name': ['web-1'] },
  };
  const accepted = () => ({ status: { authenticated: true, user, audiences: ['db'] } });

  test('asks the endpoint of the cluster, and shows claims and user', async () => {
    const args = ['review', 'app1', '--audience', 'db', 'cache'];
    const { requests, printed, error } = await runCluster(args, {
      stdin: `${token}\n`,
      answer: accepted,
    });
    assert.equal(error, undefined);
    assert.deepEqual(
      requests.map(({ method, path, body }) => ({ method, path, body })),
      [
        {
          method: 'POST',
          path: '/clusters/app1/apis/authentication.k8s.io/v1/tokenreviews',
          body: {
            apiVersion: 'authentication.k8s.io/v1',
            kind: 'TokenReview',
            spec: { token, audiences: ['db', 'cache'] },
          },
        },
      ],
    );
    for (const line of [
      /^claim sub +system:serviceaccount:default:web$/m,
      /^claim exp +\d{4}-.*Z \(in (?:60m|59m\d*s?)\)$/m,
      /^claim kubernetes\.io +\{"namespace":"default"\}$/m,
      /^verdict +authenticated$/m,
      /^user +system:serviceaccount:default:web$/m,
      /^extra +authentication\.kubernetes\.io\/pod-name: web-1$/m,
      /^audiences +db$/m,
    ])
      assert.match(printed, line);
    assert.ok(!printed.includes('c2lnbmF0dXJl'), 'the output is no credential');
  });

  test('fails where the token is denied, with the reason', async () => {
    const { printed, error } = await runCluster(['review', 'app1'], {
      stdin: token,
      answer: () => ({ status: { error: 'token has \u001b expired' } }),
    });
    assert.match(printed, /^verdict +denied$/m);
    assert.equal(error?.code, 'HANSA_JWT_INVALID');
    assert.match(error?.message ?? '', /does not authenticate the token: token has/);
    assert.ok(!printed.includes('\u001b'));
  });

  test('says what the user can do about a denial', async () => {
    const reason =
      '[invalid bearer token, token audiences ["db"] is invalid for the target audiences ["x"]]';
    const { error } = await runCluster(['review', 'app1'], {
      stdin: `${encoded({})}.${encoded({ aud: ['db', '\u001b'] })}.c2ln`,
      answer: () => ({ status: { error: reason } }),
    });
    assert.match(
      error?.message ?? '',
      /target audiences.*\. The token is for db, .*--audience db$/,
    );
    assert.ok(!error?.message.includes('\u001b'));
  });

  test('fails in another way where it could not be checked', async () => {
    const { printed, error } = await runCluster(['review', 'app1', '-o', 'json'], {
      stdin: token,
      answer: () => {
        throw new HansaError('HANSA_UNAVAILABLE', 'the API server is down');
      },
    });
    const { verdict, reason } = JSON.parse(printed) as Readonly<Record<string, unknown>>;
    assert.deepEqual([verdict, reason], ['unchecked', 'the API server is down']);
    assert.equal(error?.code, 'HANSA_UNAVAILABLE');
  });

  test('shows that a word is no JWT', async () => {
    const denied = () => ({ status: {} });
    for (const stdin of ['garbage', 'a.b.c', `a.${encoded([1])}.c`, `a.${encoded(null)}.c`]) {
      const { printed, error } = await runCluster(['review', 'app1'], { stdin, answer: denied });
      assert.match(printed, /^claims +none: this is not a JWT$/m);
      assert.equal(error?.code, 'HANSA_JWT_INVALID');
    }
  });

  test('takes no token from the command line, and does not repeat it', async () => {
    const { error } = await runCluster(['review', 'app1', token]);
    assert.equal(error?.code, 'HANSA_USAGE');
    assert.ok(!error?.message.includes(token));
  });

  test('reads the token from a file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hansa-review-'));
    try {
      writeFileSync(join(folder, 'token'), `${token}\n`);
      const io = { cwd: folder };
      const { requests } = await runCluster(['review', 'app1', 'token'], { answer: accepted, io });
      assert.deepEqual((requests[0]?.body as { spec?: unknown } | undefined)?.spec, { token });
      const missing = await runCluster(['review', 'app1', 'nothing'], { io });
      assert.equal(missing.error?.code, 'HANSA_USAGE');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('refuses empty and endless input', async () => {
    for (const stdin of [' \n', 'x'.repeat(3_000_000)]) {
      const { error, requests } = await runCluster(['review', 'app1'], { stdin });
      assert.equal(error?.code, 'HANSA_USAGE');
      assert.deepEqual(requests, []);
    }
  });
});

suite('hansa cluster credential', () => {
  const answer = () => ({ cluster: 'app1', type: 'token', subject: 's', expiresAt: 'soon' });

  test('set sends the token of standard input, and does not print it', async () => {
    const { requests, printed } = await runCluster(['credential', 'set', 'app1'], {
      ...site,
      answer,
      stdin: `${token}\n`,
    });
    assert.deepEqual(requests, [
      { method: 'PUT', path: '/hansa/v1/clusters/app1/credential', body: { token } },
    ]);
    assert.equal(printed, 'app1 has a new credential: a token of s, expires soon');
  });

  test('delete asks first', async () => {
    const { requests, questions } = await runCluster(['credential', 'delete', 'app1'], site);
    assert.match(questions[0] ?? '', /^Delete the stored credential of app1\?/);
    assert.deepEqual(requests, [{ method: 'DELETE', path: '/hansa/v1/clusters/app1/credential' }]);
  });

  for (const [what, args] of [
    ['a token and a kubeconfig', ['app1', 'token', '--kubeconfig', 'k']],
    ['a context without a kubeconfig', ['app1', '--context', 'c']],
    ['a missing kubeconfig', ['app1', '--kubeconfig', '/nowhere/k']],
  ] as const) {
    test(`set with ${what} is refused`, async () => {
      const { error, requests } = await runCluster(['credential', 'set', ...args], site);
      assert.equal(error?.code, 'HANSA_USAGE');
      assert.deepEqual(requests, []);
    });
  }
});
