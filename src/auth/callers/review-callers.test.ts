import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { PresentedCredential } from '../../core/plane/route.ts';
import {
  type Claims,
  keyIdOf,
  type KeyPair,
  signToken,
} from '../review/test-service-account-tokens.ts';
import type { Verdict } from '../review/verdict.ts';
import { CallerChecks } from './caller-checks.ts';
import { ReviewCallers } from './review-callers.ts';
import { ServiceAccountCallers } from './service-account-callers.ts';
import { sharedIssuer, TestDirectory, testCluster } from '../clusters/test-reviewed-clusters.ts';
import { TestKeys, TestReviewer } from './test-reviewer.ts';

const audience = 'hansa://lubeck.example';
const apiServerAudience = sharedIssuer;

function scene(anonymous = false) {
  const directory = new TestDirectory(
    testCluster('app1'),
    testCluster('app2', { acceptsAPIServerAudience: true }),
    testCluster('app3', { issuer: 'https://other.example' }),
  );
  const clock = new VirtualClock();
  const reviewer = new TestReviewer();
  const keys = new TestKeys();
  for (const name of ['app1', 'app2', 'app3']) keys.held.set(name, [keyOf(name)]);
  const rejections: string[] = [];
  const checks = new CallerChecks(clock);
  const serviceAccounts = new ServiceAccountCallers({
    clusters: directory,
    keys,
    reviewer,
    audience,
    rejected: ({ name }, { error }) => void rejections.push(`${name}: ${error}`),
    checks,
  });
  const callers = new ReviewCallers({
    trustDomain: TrustDomain.parse('lubeck.example'),
    anonymous,
    serviceAccounts,
  });
  const connection = {};
  const ask = (presented: Partial<PresentedCredential>) =>
    callers.authenticate({
      path: '/',
      params: {},
      host: undefined,
      serverName: undefined,
      headers: {},
      address: '127.0.0.1',
      svid: undefined,
      hasCertificate: presented.svid !== undefined,
      connection,
      ...presented,
    });
  /** A token that the key of the cluster signs, and that the cluster accepts. */
  const account = (id: string, cluster: string, audiences = [audience]) => {
    const token = signed(id, cluster, directory.find(cluster)?.issuer);
    const username = 'system:serviceaccount:shop:web';
    reviewer.tokens.set(token, { cluster, username, audiences });
    return bearer(token);
  };
  return { directory, reviewer, keys, ask, account, rejections, checks, clock };
}

const pairs = new Map<string, KeyPair>();

/** The same one for the same name. */
function keyOf(name: string): KeyPair {
  const pair = pairs.get(name) ?? generateKeyPairSync('ec', { namedCurve: 'P-256' });
  pairs.set(name, pair);
  return pair;
}

function signed(id: string, keyName: string, iss = sharedIssuer, header: Claims = {}): string {
  return signToken({ key: keyOf(keyName), claims: { iss, jti: id }, header });
}

function bearer(token: string) {
  return { headers: { authorization: `Bearer ${token}` } };
}

function svid(id: string): ValidatedSvid {
  return { id: SpiffeId.parse(id), serialHex: '0a', notAfterMs: 1 } as unknown as ValidatedSvid;
}

suite('a ServiceAccount token', () => {
  test('authenticates its account, with cluster and namespace in the names', async () => {
    const { ask, account } = scene();
    const caller = await ask(account('t1', 'app1'));
    assert.deepEqual(caller, {
      user: 'serviceaccount:app1:shop:web',
      groups: [
        'hansa:serviceaccounts',
        'serviceaccounts:app1',
        'serviceaccounts:app1:shop',
        'system:authenticated',
      ],
      via: 'serviceaccount',
      credential: 'app1',
    });
  });

  test('that its cluster denies is reported, each time, and others are not', async () => {
    const { ask, account, rejections, reviewer } = scene();
    assert.equal(await ask(account('t1', 'app1', [apiServerAudience])), undefined);
    assert.equal(rejections.length, 1);
    assert.match(rejections[0] ?? '', /^app1: /);
    const accepted = account('t2', 'app1');
    assert.notEqual(await ask(accepted), undefined);
    assert.equal(rejections.length, 1);
    // The same connection and token, after the account was deleted.
    reviewer.tokens.clear();
    assert.equal(await ask(accepted), undefined);
    assert.equal(rejections.length, 2);
    // A stranger must not fill the audit log.
    assert.equal(await ask(bearer(signed('t3', 'a stranger'))), undefined);
    assert.equal(rejections.length, 2);
  });

  test('is shown to the cluster that signed it only, of those that share its issuer', async () => {
    const { ask, account, reviewer, keys } = scene();
    const caller = await ask(account('t2', 'app2'));
    assert.equal(caller?.user, 'serviceaccount:app2:shop:web');
    assert.deepEqual(
      reviewer.asked.map(({ cluster }) => cluster),
      ['app2'],
    );
    assert.deepEqual(keys.fetched, []);
  });

  test('is shown to no cluster where two API servers publish its key', async () => {
    const { ask, account, reviewer, keys } = scene();
    keys.held.set('app2', [keyOf('app2'), keyOf('app1')]);
    await assert.rejects(async () => ask(account('t1', 'app1')), {
      code: 'HANSA_UNAVAILABLE',
      message: /app1 and app2 publish the key/,
    });
    assert.deepEqual(reviewer.asked, []);
    assert.equal((await ask(account('t2', 'app2')))?.user, 'serviceaccount:app2:shop:web');
  });

  test('is parsed for the clusters with its key only, of many with the same issuer', async (t) => {
    const { ask, account, directory, keys } = scene();
    const names = Array.from({ length: 100 }, (_, number) => `c${number}`);
    directory.set(testCluster('app1'), ...names.map((name) => testCluster(name)));
    for (const name of names) keys.held.set(name, [keyOf('stranger')]);
    const token = account('t1', 'app1');
    const parse = t.mock.method(JSON, 'parse');
    assert.equal((await ask(token))?.user, 'serviceaccount:app1:shop:web');
    assert.ok(parse.mock.callCount() < 10, `${parse.mock.callCount()} times`);
  });

  test('of an account without rights does not make the site ask API servers at will', async () => {
    const { ask, account, reviewer, clock } = scene();
    reviewer.slow.add('app1');
    let refused: unknown;
    const tries = 3000;
    for (let at = 0; at < tries && refused === undefined; at++) {
      // Each on a connection of its own, and some with another token of the account.
      const token = account(`t${at % 3}`, 'app1');
      refused = await Promise.resolve(ask({ ...token, connection: {} })).then(
        () => undefined,
        (error: unknown) => error,
      );
    }
    assert.ok(hasCode(refused, 'HANSA_TOO_MANY_REQUESTS'), String(refused));
    assert.ok((refused.details?.retryAfterSeconds ?? 0) >= 1);
    const before = reviewer.asked.length;
    assert.ok(before < tries);
    await assert.rejects(async () => ask({ ...account('t9', 'app1'), connection: {} }));
    assert.equal(reviewer.asked.length, before);
    await clock.advance(60_000);
    assert.ok(await ask({ ...account('t1', 'app1'), connection: {} }));
  });

  test('of an account with rights is never refused for the number of its requests', async () => {
    const { ask, account, reviewer, checks } = scene();
    reviewer.slow.add('app1');
    const token = account('t1', 'app1');
    for (let at = 0; at < 3000; at++) {
      const caller = await ask(token);
      assert.ok(caller);
      checks.authorized(caller.user, '127.0.0.1');
    }
  });

  test('of one address is refused also where each has another account', async () => {
    const { ask, reviewer, account } = scene();
    reviewer.slow.add('app1');
    let refusals = 0;
    for (let at = 0; at < 1100; at++) {
      const sub = `system:serviceaccount:shop:a${at}`;
      const token = signToken({ key: keyOf('app1'), claims: { iss: sharedIssuer, sub } });
      await Promise.resolve(ask({ ...bearer(token), connection: {} })).catch(() => (refusals += 1));
    }
    assert.ok(refusals > 0);
    const other = { ...account('t1', 'app1'), address: '10.0.0.9', connection: {} };
    assert.ok(await ask(other));
  });

  test('of a new key makes the site fetch keys, and is then shown to its cluster', async () => {
    const { ask, account, reviewer, keys } = scene();
    keys.held.set('app2', [keyOf('old')]);
    keys.published.set('app2', [keyOf('app2')]);
    keys.down.add('app1');
    assert.equal((await ask(account('t2', 'app2')))?.user, 'serviceaccount:app2:shop:web');
    assert.deepEqual(keys.fetched, ['app1', 'app2']);
    assert.deepEqual(
      reviewer.asked.map(({ cluster }) => cluster),
      ['app2'],
    );
  });

  test('of a key that no cluster has is refused, and unchecked while keys cannot be fetched', async () => {
    const { ask, reviewer, keys } = scene();
    assert.equal(await ask(bearer(signed('t1', 'nobody'))), undefined);
    keys.down.add('app2');
    await assert.rejects(
      async () => ask(bearer(signed('t1', 'nobody'))),
      (error: Error) => hasCode(error, 'HANSA_UNAVAILABLE') && !error.message.includes('10.0.0.1'),
    );
    assert.deepEqual(reviewer.asked, []);
  });

  test('with the kid of a cluster and another signature is refused', async () => {
    const { ask, reviewer, keys } = scene();
    const header = { kid: keyIdOf(keyOf('app1')) };
    assert.equal(await ask(bearer(signed('t1', 'nobody', sharedIssuer, header))), undefined);
    assert.deepEqual(reviewer.asked, []);
    assert.deepEqual(keys.fetched, ['app2']);
  });

  test('counts only for the audience of this site', async () => {
    const { ask, account } = scene();
    assert.equal(await ask(account('t1', 'app1', [apiServerAudience])), undefined);
  });

  test('counts for the audience of its API server where the cluster opts in', async () => {
    const { ask, account } = scene();
    const caller = await ask(account('t2', 'app2', [apiServerAudience]));
    assert.equal(caller?.user, 'serviceaccount:app2:shop:web');
  });

  test('is reviewed again for each request, without asking other clusters', async () => {
    const { ask, account, reviewer } = scene();
    const shown = account('t2', 'app2');
    const first = await ask(shown);
    reviewer.asked.length = 0;
    assert.equal(ask(shown), first, 'at once, and the same object');
    assert.deepEqual(
      reviewer.asked.map(({ cluster }) => cluster),
      ['app2'],
    );
  });

  test('is refused from the moment when its cluster denies it', async () => {
    const { ask, account, reviewer } = scene();
    const shown = account('t1', 'app1');
    assert.ok(await ask(shown));
    reviewer.tokens.clear();
    assert.equal(await ask(shown), undefined);
  });

  test('is refused as soon as another Cluster has the name of its cluster', async () => {
    const { ask, account, directory, reviewer } = scene();
    const shown = account('t1', 'app1');
    assert.ok(await ask(shown));
    reviewer.asked.length = 0;
    directory.set(testCluster('app1', { uid: 'another', issuer: 'https://moved.example' }));
    assert.equal(await ask(shown), undefined);
    assert.deepEqual(reviewer.asked, []);
  });

  test('of another connection does not replace the one that this connection shows', async () => {
    const { ask, account } = scene();
    const first = account('t1', 'app1');
    const second = account('t2', 'app2');
    assert.equal((await ask(first))?.user, 'serviceaccount:app1:shop:web');
    assert.equal((await ask(second))?.user, 'serviceaccount:app2:shop:web');
    assert.equal((await ask(first))?.user, 'serviceaccount:app1:shop:web');
  });

  test('is found although another cluster of the same issuer cannot check', async () => {
    const { ask, account, reviewer, directory, keys } = scene();
    directory.set(
      testCluster('app1', { apiServer: undefined }),
      testCluster('app2', { apiServer: undefined }),
    );
    keys.held.set('app1', [keyOf('app2')]);
    reviewer.down.add('app1');
    assert.equal((await ask(account('t2', 'app2')))?.user, 'serviceaccount:app2:shop:web');
    reviewer.slow.add('app2');
    assert.equal((await ask(account('t3', 'app2')))?.user, 'serviceaccount:app2:shop:web');
  });

  test('is unchecked, not refused, where the cluster that might accept it cannot check', async () => {
    const { ask, reviewer } = scene();
    reviewer.down.add('app1');
    await assert.rejects(
      async () => ask(bearer(signed('t9', 'app1'))),
      (error) => hasCode(error, 'HANSA_UNAVAILABLE'),
    );
  });

  test('of a user that is no ServiceAccount is refused', async () => {
    const { ask, reviewer } = scene();
    const token = signed('t1', 'app1');
    reviewer.tokens.set(token, { cluster: 'app1', username: 'admin', audiences: [audience] });
    assert.equal(await ask(bearer(token)), undefined);
  });

  test('keeps its cluster where another Cluster for the same API server accepts it later', async () => {
    const { ask, account, directory, reviewer, keys } = scene();
    const apiServer = 'https://app1.example:6443/';
    directory.set(testCluster('app0', { apiServer }), testCluster('app1', { apiServer }));
    keys.held.set('app0', [keyOf('app1')]);
    const token = account('t1', 'app1');
    const later = Promise.withResolvers<Verdict>();
    const known = reviewer.review.bind(reviewer);
    reviewer.review = (cluster, question) =>
      cluster.name === 'app0' ? later.promise : known(cluster, question);
    const first = await ask(token);
    assert.equal(first?.user, 'serviceaccount:app1:shop:web');
    later.resolve({
      authenticated: true,
      user: { username: 'system:serviceaccount:shop:web', uid: 'u', groups: [], extra: {} },
      audiences: [audience],
      expiresAtMs: 0,
    });
    await later.promise;
    await Promise.resolve();
    assert.equal(await ask(token), first);
  });

  test('is not even read where it is no JWT, too long, without kid, or of an unknown issuer', async () => {
    const { ask, reviewer } = scene();
    for (const authorization of [
      'Basic YTpi',
      'Bearer',
      'Bearer hansa_abc',
      'Bearer a.b',
      'Bearer a.b.c.d',
      'Bearer a.!.c',
      'Bearer a.bm8.c',
      `Bearer ${'a'.repeat(20_000)}.b.c`,
      `Bearer ${signed('t1', 'app1', 'https://unknown.example')}`,
      `Bearer ${signed('t1', 'app1', sharedIssuer, { kid: undefined })}`,
      `Bearer ${signed('t1', 'app1', sharedIssuer, { kid: '' })}`,
    ])
      assert.equal(await ask({ headers: { authorization } }), undefined, authorization);
    assert.deepEqual(reviewer.asked, []);
  });
});

suite('the SVID of a workload', () => {
  test('authenticates its SPIFFE ID, with the same caller for each request', () => {
    const { ask } = scene();
    const presented = { svid: svid('spiffe://lubeck.example/billing') };
    const caller = ask(presented);
    assert.deepEqual(caller, {
      user: 'spiffe://lubeck.example/billing',
      groups: ['hansa:workloads', 'system:authenticated'],
      via: 'workload',
      credential: '0a',
    });
    assert.equal(ask(presented), caller);
  });

  test('does not count below /hansa or of another trust domain', () => {
    const { ask } = scene(true);
    for (const id of [
      'spiffe://lubeck.example/hansa/agent/crane',
      'spiffe://lubeck.example/hansa/site',
      'spiffe://bruges.example/billing',
    ])
      assert.equal(ask({ svid: svid(id) }), undefined, id);
  });
});

suite('a program without a credential', () => {
  test('is refused unless the setting allows it', () => {
    assert.equal(scene().ask({}), undefined);
    const caller = scene(true).ask({});
    assert.ok(caller && !(caller instanceof Promise));
    assert.equal(caller.via, 'anonymous');
    assert.ok(caller.groups.includes('hansa:local-programs'));
  });

  test('is accepted only from loopback', () => {
    const { ask } = scene(true);
    for (const address of ['127.0.0.1', '127.8.9.10', '::1', '::ffff:127.0.0.1'])
      assert.ok(ask({ address }), address);
    for (const address of [undefined, '', '10.0.0.1', '::', 'fe80::1', '::ffff:10.0.0.1', '127.x'])
      assert.equal(ask({ address }), undefined, address);
  });

  test('is refused behind a proxy', () => {
    const { ask } = scene(true);
    for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip', 'via', 'x-forwarded-host'])
      assert.equal(ask({ headers: { [name]: '127.0.0.1' } }), undefined, name);
  });

  test('is refused where it presents a wrong credential', async () => {
    const { ask } = scene(true);
    assert.equal(ask({ hasCertificate: true }), undefined);
    assert.equal(await ask({ headers: { authorization: 'Bearer wrong' } }), undefined);
  });
});
