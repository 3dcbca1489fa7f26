import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { socketOwner } from '../../core/access/identity.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { apiServer, hour, tokenOf } from '../../core/kube/credentials/test-credentials.ts';
import { credentialsCollection } from '../../core/kube/credentials/stored-credentials.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { setCredential } from '../credentials/set-credential.ts';
import { credentialSite } from '../credentials/test-credential-site.ts';
import { credentialController } from './credential-controller.ts';
import { silentLog } from '../../core/log/test-log.ts';

const by = { caller: socketOwner, origin: {} };

async function scene(t: TestContext) {
  const site = await credentialSite(t);
  const controller = credentialController(site);
  const { stored } = site.credentials;
  return {
    ...site,
    controller,
    look: () => site.run(controller),
    set: (token: string) => setCredential({ ...site, stored }, 'app1', { token }, by),
    told: async (): Promise<string> => {
      const found = await site.condition('CredentialFresh');
      return `${found?.status} ${found?.reason}`;
    },
    message: async (): Promise<string> => (await site.condition('CredentialFresh'))?.message ?? '',
    /** The token that a replica would send now. */
    used: async (credentials = site.credentials): Promise<string> => {
      const source = credentials.sourceOf((await site.cluster()) as Cluster);
      const credential = await source.current();
      return credential.type === 'token' ? credential.token : credential.type;
    },
  };
}

suite('a stored token', () => {
  test('is left alone while it is fresh, with its expiry in status and metrics', async (t) => {
    const { create, set, look, told, clock, server, cluster, metrics } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    assert.deepEqual(await look(), { requeueAfterMs: hour });
    assert.equal(await told(), 'True Fresh');
    assert.equal(server.renewals, 0);
    const until = (await cluster())?.status?.credentialExpiresAt ?? '';
    assert.equal(Date.parse(until), clock.now() + 168 * hour);
    assert.match(
      metrics.expose(),
      /hansa_cluster_credential_expiry_seconds\{cluster="app1"\} 604800\n/,
    );
  });

  test('is renewed 48 hours before its expiry, for all replicas and after a restart', async (t) => {
    const { create, set, look, told, clock, server, used, open, records, metrics } = await scene(t);
    await create();
    const first = tokenOf(clock.now(), 168 * hour);
    await set(first);
    await clock.advance(120 * hour - 1000);
    assert.deepEqual(await look(), { requeueAfterMs: 1000 });
    await clock.advance(1000);
    await look();
    const renewed = tokenOf(clock.now(), 168 * hour);
    assert.equal(server.renewals, 1);
    assert.equal(await used(), renewed);
    assert.equal(await used(open()), renewed);
    assert.equal(await told(), 'True Fresh');
    // The new token is tried at once.
    assert.deepEqual(server.requests.at(-1), { method: 'GET', path: '/version', token: renewed });
    assert.match(metrics.expose(), /renewals_total\{cluster="app1",result="renewed"\} 1\n/);
    const verbs = records.map(({ verb }) => verb);
    assert.ok(verbs.includes('cluster.credential.set'));
    assert.ok(verbs.includes('cluster.credential.renew'));
    const shown = JSON.stringify(records);
    for (const token of [first, renewed]) assert.ok(!shown.includes(token));
  });

  test('is renewed at once where the cluster signs with another key by now', async (t) => {
    const { create, set, look, told, clock, server, superseded, used } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await look();
    assert.equal(server.renewals, 0);
    // It will drop the key of the token some day.
    superseded.add('k');
    await clock.advance(60_000);
    await look();
    assert.equal(server.renewals, 1);
    assert.equal(await used(), tokenOf(clock.now(), 168 * hour));
    assert.equal(await told(), 'True Fresh');
    // A replica of the API server still signs with the old key: the site does not insist.
    for (let turn = 0; turn < 5; turn++) await look();
    assert.equal(server.renewals, 1);
  });

  test('that does not expire, or has another issuer, has no key to follow', async (t) => {
    const { create, set, look, clock, server, superseded } = await scene(t);
    superseded.add('k');
    await create();
    await set(tokenOf(clock.now(), undefined));
    await look();
    await set(tokenOf(clock.now(), 168 * hour, { iss: 'https://other.example' }));
    await look();
    assert.equal(server.renewals, 0);
  });

  test('is renewed after half of its life where the API server grants less', async (t) => {
    const { create, set, look, clock, server, used } = await scene(t);
    await create();
    server.maxLifeMs = hour;
    await set(tokenOf(clock.now(), hour));
    await clock.advance(hour / 2);
    await look();
    assert.equal(await used(), tokenOf(clock.now(), hour));
    assert.deepEqual(await look(), { requeueAfterMs: hour / 2 });
  });

  test('that cannot be renewed is reported long before its expiry', async (t) => {
    const { create, set, look, told, message, clock, server, metrics } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await look();
    await clock.advance(121 * hour);
    server.isDown = true;
    const { requeueAfterMs = 0 } = (await look()) ?? {};
    assert.ok(requeueAfterMs >= 5_000 && requeueAfterMs <= 10_000);
    assert.equal(await told(), 'Unknown RenewalFailed');
    assert.match(await message(), /Cannot reach .*It expires at 2026-01-08/);
    // Changes of the Cluster do not shorten the back-off.
    await look();
    assert.match(metrics.expose(), /renewals_total\{cluster="app1",result="failed"\} 1\n/);
    await clock.advance(24 * hour);
    await look();
    assert.equal(await told(), 'False RenewalFailed');
    server.isDown = false;
    await clock.advance(hour);
    await look();
    assert.equal(await told(), 'True Fresh');
  });

  test('that may not be renewed is reported with the missing rule', async (t) => {
    const { create, set, look, told, message, clock, server } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await clock.advance(121 * hour);
    server.answer = ({ path }) => ({ status: path === '/version' ? 200 : 403 });
    await look();
    assert.equal(await told(), 'False NotAllowed');
    assert.match(await message(), /serviceaccounts\/token.*resourceNames \["hansa"\]/);
  });

  test('that expired is reported with what to do', async (t) => {
    const { create, set, look, told, message, clock, server } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), hour));
    await clock.advance(2 * hour);
    await look();
    assert.equal(await told(), 'False Expired');
    assert.match(await message(), /hansa cluster credential set app1/);
    assert.equal(server.renewals, 1);
    // And it does not ask for a new one again and again.
    await look();
    assert.equal(server.renewals, 1);
  });

  test('that is revoked in mid-flight is reported at once, and a new one ends it', async (t) => {
    const { create, set, look, told, clock, server, clientOf, controller, message } =
      await scene(t);
    await create();
    const first = tokenOf(clock.now(), 168 * hour);
    await set(first);
    await look();
    const added: string[] = [];
    const sources = controller.sources.map((source) =>
      source.start({ add: (key) => added.push(key), ended: () => undefined }),
    );
    t.after(() => sources.forEach((source) => source.stop()));
    added.length = 0;
    server.revoked.add(first);
    await clientOf().request({ method: 'POST', path: '/any' });
    assert.deepEqual(added, ['app1']);
    assert.deepEqual(await look(), { requeueAfterMs: 60_000 });
    assert.equal(await told(), 'False Refused');
    assert.match(await message(), /HTTP 401.*hansa cluster credential set app1/);
    await set(tokenOf(clock.now() + 1000, 168 * hour));
    await look();
    assert.equal(await told(), 'True Fresh');
  });

  test('that was rejected stays reported by the next leader until it could ask', async (t) => {
    const site = await scene(t);
    const { create, set, look, told, clock, server, run } = site;
    await create();
    const first = tokenOf(clock.now(), 168 * hour);
    await set(first);
    server.revoked.add(first);
    await look();
    server.isDown = true;
    const next = credentialController({ ...site, metrics: new MetricsRegistry() });
    await run(next);
    assert.equal(await told(), 'False Refused');
    server.isDown = false;
    server.revoked.clear();
    await clock.advance(60_000);
    await run(next);
    assert.equal(await told(), 'True Fresh');
  });

  test('is not used after the API server changed', async (t) => {
    const { create, set, look, told, message, client, clock, server } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await client.patchSpec(
      'app1',
      (current) => ({ ...current.spec, apiServer: 'https://evil.example' }),
      { controller: 'test' },
    );
    await look();
    assert.equal(await told(), 'False BindingChanged');
    assert.match(await message(), /apiServer changed.*hansa cluster credential set app1/);
    assert.deepEqual(server.requests, []);
  });

  test('does not come back when it is deleted during its renewal', async (t) => {
    const { create, set, look, clock, server, credentials, told, store } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await clock.advance(121 * hour);
    let deleting: Promise<unknown> | undefined;
    server.answer = ({ path }) => {
      if (path === '/version') return { status: 200 };
      deleting = credentials.stored.delete('app1', []);
      return { status: 201, body: { status: { token: tokenOf(clock.now(), 168 * hour) } } };
    };
    await assert.rejects(look(), (error) => hasCode(error, 'HANSA_CONFLICT'));
    await deleting;
    assert.equal(store.get(credentialsCollection, 'app1'), undefined);
    await look();
    assert.equal(await told(), 'False NotSet');
  });

  test('is not renewed by a replica that lost its lease', async (t) => {
    const { create, set, clock, controller, used, server, store } = await scene(t);
    await create();
    const first = tokenOf(clock.now(), 168 * hour);
    await set(first);
    await clock.advance(121 * hour);
    const lease = controller.lease as string;
    const old = await store.leases.acquire(lease, 'one', 1000);
    await clock.advance(60_000);
    await store.leases.acquire(lease, 'two', 60_000);
    const { signal } = new AbortController();
    await assert.rejects(
      controller.reconcile('app1', { signal, epoch: old?.epoch, log: silentLog }),
      (error) => hasCode(error, 'HANSA_FENCED'),
    );
    assert.equal(server.renewals, 1);
    assert.equal(await used(), first);
  });

  test('stays in use where the new one cannot be stored', async (t) => {
    const { create, set, look, clock, used, credentials, told } = await scene(t);
    await create();
    const first = tokenOf(clock.now(), 168 * hour);
    await set(first);
    await clock.advance(121 * hour);
    const full = new HansaError('HANSA_STORE_FULL', 'The disk is full.');
    const { mock } = t.mock.method(credentials.stored, 'put', () => Promise.reject(full));
    await look();
    assert.equal(await told(), 'Unknown RenewalFailed');
    assert.equal(await used(), first);
    mock.restore();
    await clock.advance(10_000);
    await look();
    assert.equal(await told(), 'True Fresh');
    assert.equal(await used(), tokenOf(clock.now(), 168 * hour));
  });

  test('is not kept for an address that changed during the renewal', async (t) => {
    const { create, set, look, clock, server, client, used } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await clock.advance(121 * hour);
    let changing: Promise<unknown> = Promise.resolve();
    server.answer = ({ path }) => {
      if (path === '/version') return { status: 200 };
      changing = client.patchSpec(
        'app1',
        (current) => ({ ...current.spec, apiServer: 'https://evil.example' }),
        { controller: 'test' },
      );
      return { status: 201, body: { status: { token: tokenOf(clock.now(), 168 * hour) } } };
    };
    await assert.rejects(look(), (error) => hasCode(error, 'HANSA_CONFLICT'));
    await changing;
    await assert.rejects(used(), /apiServer changed/);
  });

  test('is kept although others write the status of the Cluster meanwhile', async (t) => {
    const { create, set, look, clock, server, client, used } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await clock.advance(121 * hour);
    const renewed = tokenOf(clock.now(), 168 * hour);
    server.answer = ({ path }) => {
      if (path === '/version') return { status: 200 };
      void client.patchStatus('app1', ({ status }) => ({ ...status, mode: 'hybrid' }), {
        controller: 'other',
      });
      return { status: 201, body: { status: { token: renewed } } };
    };
    await look();
    assert.equal(await used(), renewed);
  });
});

suite('a token in a file', () => {
  const spec = { apiServer, credential: { tokenFile: 'app1/token', renew: {} } };

  test('is renewed where the Cluster says so, and a newer one in the file wins', async (t) => {
    const { create, look, clock, server, used, write } = await scene(t);
    await create(spec);
    write('app1/token', tokenOf(clock.now(), 168 * hour));
    await clock.advance(121 * hour);
    await look();
    const renewed = tokenOf(clock.now(), 168 * hour);
    assert.equal(await used(), renewed);
    const newer = tokenOf(clock.now() + 1000, 168 * hour);
    write('app1/token', newer);
    await clock.advance(hour);
    await look();
    assert.equal(await used(), newer);
    assert.equal(server.renewals, 1);
  });

  test('is renewed again from its renewal', async (t) => {
    const { create, look, clock, server, used, write } = await scene(t);
    await create(spec);
    write('app1/token', tokenOf(clock.now(), 168 * hour));
    for (const count of [1, 2, 3]) {
      await clock.advance(121 * hour);
      await look();
      assert.equal(server.renewals, count);
      assert.equal(await used(), tokenOf(clock.now(), 168 * hour));
    }
  });

  test('is not renewed otherwise: an old one is reported', async (t) => {
    const { create, look, told, clock, server, write } = await scene(t);
    await create({ apiServer, credential: { tokenFile: 'app1/token' } });
    write('app1/token', tokenOf(clock.now(), 10 * hour));
    await look();
    assert.equal(await told(), 'True Fresh');
    await clock.advance(9.5 * hour);
    await look();
    assert.equal(await told(), 'False ExpiresSoon');
    assert.equal(server.renewals, 0);
  });

  test('that is missing is reported', async (t) => {
    const { create, look, told, message } = await scene(t);
    await create(spec);
    await look();
    assert.equal(await told(), 'False FileUnreadable');
    assert.match(await message(), /app1\/token.*there is no such file/);
  });
});

test('an API server that rejects everything is not asked without end', async (t) => {
  const { create, look, server, controller, clock, told } = await scene(t);
  await create({ apiServer, credential: { jwtSVID: { audience: 'app1' } } });
  server.answer = () => ({ status: 401 });
  const added: string[] = [];
  const sources = controller.sources.map((source) =>
    source.start({ add: (key) => added.push(key), ended: () => undefined }),
  );
  t.after(() => sources.forEach((source) => source.stop()));
  for (let runs = 0; added.length > 0 && runs < 20; runs += 1) {
    added.length = 0;
    await look();
    await clock.advance(0);
  }
  assert.equal(await told(), 'False Refused');
  assert.deepEqual(added, []);
  assert.ok(server.requests.length <= 2);
});

test('an API server whose tokens are due at once does not fill the audit log', async (t) => {
  const { create, set, look, clock, server, records } = await scene(t);
  await create();
  await set(tokenOf(clock.now(), 168 * hour));
  await clock.advance(121 * hour);
  // A life that began long ago, and a token of its own each time.
  server.answer = ({ path }) => ({
    status: path === '/version' ? 200 : 201,
    body: { status: { token: tokenOf(1000, clock.now() + hour, { jti: server.renewals }) } },
  });
  const endsMs = clock.monotonic() + hour;
  while (clock.monotonic() < endsMs) {
    const { requeueAfterMs = hour } = (await look()) ?? {};
    await clock.advance(requeueAfterMs);
  }
  const renewals = records.filter(({ verb }) => verb === 'cluster.credential.renew').length;
  assert.ok(renewals >= 2 && renewals <= 15, String(renewals));
  // One that behaves again is asked as usual.
  server.answer = undefined;
  await clock.advance(hour / 2);
  await look();
  assert.deepEqual(await look(), { requeueAfterMs: hour });
});

suite('a Cluster', () => {
  test('without an API server needs no credential', async (t) => {
    const { create, look, told } = await scene(t);
    await create({});
    await look();
    assert.equal(await told(), 'True NotNeeded');
  });

  test('without a credential says how to set one', async (t) => {
    const { create, look, told, message } = await scene(t);
    await create();
    await look();
    assert.equal(await told(), 'False NotSet');
    assert.match(await message(), /hansa cluster credential set app1/);
  });

  test('with a JWT-SVID is fresh while the API server accepts it', async (t) => {
    const { create, look, told, message, server, clock } = await scene(t);
    await create({ apiServer, credential: { jwtSVID: { audience: 'app1' } } });
    await look();
    assert.equal(await told(), 'True Fresh');
    server.answer = () => ({ status: 401 });
    await clock.advance(60_000);
    await look();
    assert.equal(await told(), 'False Refused');
    assert.match(await message(), /hansa cluster auth-config app1/);
  });

  test('takes its credential with it, in the same commit', async (t) => {
    const { create, set, clock, store, client, look, metrics } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await look();
    const before = store.revision;
    await client.delete('app1', { controller: 'test' });
    assert.equal(store.get(clusterKind.plural, 'app1'), undefined);
    assert.equal(store.get(credentialsCollection, 'app1'), undefined);
    assert.equal(store.revision, before + 2);
    await look();
    assert.ok(!metrics.expose().includes('cluster="app1"'));
  });

  test('that is created again does not get the old credential', async (t) => {
    const { create, set, clock, client, look, told } = await scene(t);
    await create();
    await set(tokenOf(clock.now(), 168 * hour));
    await client.delete('app1', { controller: 'test' });
    await create();
    await look();
    assert.equal(await told(), 'False NotSet');
  });
});
