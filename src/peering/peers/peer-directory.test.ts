import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import { type LivePeer, type PeerDirectory, route } from '../../core/plane/route.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { openStore } from '../../core/store/open.ts';
import { peerDirectory } from './peer-directory.ts';

const svid = (id: string) => ({ id: SpiffeId.parse(id) }) as ValidatedSvid;
const bruges = svid('spiffe://bruges.example/hansa/site');

async function scene(t: TestContext) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const denied: AuditDraft[] = [];
  const lines: unknown[] = [];
  const put = async (collection: string, name: string, object: object): Promise<void> => {
    const bytes = Buffer.from(
      JSON.stringify({ metadata: { name, uid: `uid-${name}` }, ...object }),
    );
    await store.commit({ put: [{ collection, name, encode: () => bytes }] });
  };
  const peer = (state: string): Promise<void> =>
    put('federationpeers', 'bruges.example', { spec: {}, status: { state } });
  const grant = (spec: object = {}, more: object = {}): Promise<void> =>
    put('federationgrants', 'g1', {
      ...more,
      spec: {
        peer: 'bruges.example',
        scopes: ['write'],
        offers: ['db'],
        nodeInstances: { unrestricted: true },
        networks: { unrestricted: true },
        sourceCIDRs: { unrestricted: true },
        ...spec,
      },
    });
  const directory = peerDirectory({
    trustDomain: TrustDomain.parse('lubeck.example'),
    store,
    clock,
    audit: { deny: (draft) => denied.push(draft) },
    log: { warn: (_text, fields) => lines.push(fields) },
  });
  return { clock, directory, peer, grant, put, denied, lines };
}

suite('the directory of peers', () => {
  test('finds a live peer by the SVID of its site', async (t) => {
    const { directory, peer } = await scene(t);
    for (const state of ['enrolled', 'active', 'degraded']) {
      await peer(state);
      const found = directory.find(bruges) as LivePeer;
      assert.deepEqual([found.name, found.uid], ['bruges.example', 'uid-bruges.example']);
    }
  });

  for (const [what, shown, why] of [
    ['no SVID', undefined, 'the caller presented no SVID of a peer'],
    ['a workload of the peer', svid('spiffe://bruges.example/web'), /is not another site/],
    ['this site itself', svid('spiffe://lubeck.example/hansa/site'), /is not another site/],
    ['an unknown site', svid('spiffe://reval.example/hansa/site'), 'reval.example is not a peer'],
  ] as const) {
    test(`refuses ${what}`, async (t) => {
      const { directory, peer } = await scene(t);
      await peer('active');
      const found = directory.find(shown);
      assert(typeof found === 'string');
      assert.match(found, typeof why === 'string' ? new RegExp(`^${why}$`) : why);
    });
  }

  for (const state of ['proposed', 'accepted', 'suspended', 'revoked']) {
    test(`refuses a peer that is ${state}`, async (t) => {
      const { directory, peer } = await scene(t);
      await peer(state);
      assert.equal(directory.find(bruges), `bruges.example is ${state}`);
    });
  }

  test('tells a change that can end the trust in a peer', async (t) => {
    const { directory, peer, grant, clock } = await scene(t);
    let told = 0;
    const stop = directory.onChange(() => told++);
    await peer('suspended');
    await clock.advance(0);
    assert.ok(told > 0);
    const before = told;
    await grant();
    await clock.advance(0);
    assert.ok(told > before);
    stop();
    const last = told;
    await peer('active');
    await clock.advance(0);
    assert.equal(told, last);
  });
});

suite('a route for peers with a grant of a scope', () => {
  const writing = route({
    listener: 'federation',
    method: 'POST',
    path: '/things/{name}',
    allow: 'peer',
    scope: 'write',
    handle: ({ peer, params }) => ({
      status: 200,
      contentType: 'text/plain',
      body: `${peer.name} ${params.name}`,
    }),
  });
  const call = { params: { name: 'crane' }, svid: () => bruges, address: '192.0.2.7' };

  test('is for those', async (t) => {
    const { directory, peer, grant } = await scene(t);
    await peer('active');
    await grant();
    const { body } = await callRoute(writing, call, { peers: directory });
    assert.equal(body, 'bruges.example crane');
  });

  test('is for nobody whose grant is being deleted', async (t) => {
    const { directory, peer, grant } = await scene(t);
    await peer('active');
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    await grant({}, { metadata: { name: 'g1', uid: 'uid-g1', deletionTimestamp } });
    await assert.rejects(callRoute(writing, call, { peers: directory }), {
      code: 'HANSA_FORBIDDEN',
    });
  });

  for (const [what, spec, why] of [
    ['has another scope', { scopes: ['read'] }, /needs the scope write, and grant g1 has read/],
    ['is for another peer', { peer: 'reval.example' }, /no grant for .*\/hansa\/site$/],
    ['has expired', { expiresAt: '2001-01-01T00:00:00Z' }, /grant g1 expired at 2001/],
    [
      'names another identity',
      { nodeInstances: { ids: ['spiffe://bruges.example/web'] } },
      /grant g1 does not name this identity/,
    ],
    [
      'is for another address',
      { sourceCIDRs: { cidrs: ['198.51.100.0/24'] } },
      /does not cover calls from 192\.0\.2\.7/,
    ],
    ['matches no network', { networks: {} }, /limited to networks/],
    ['names no target', { offers: [] }, /no grant for .*\/hansa\/site$/],
  ] as const) {
    test(`refuses a peer whose grant ${what}, and records why`, async (t) => {
      const { directory, peer, grant, denied } = await scene(t);
      await peer('active');
      await grant(spec);
      // The caller does not learn why.
      await assert.rejects(callRoute(writing, call, { peers: directory }), {
        code: 'HANSA_FORBIDDEN',
        message: 'Denied.',
      });
      assert.equal(denied[0]?.name, 'bruges.example');
      assert.equal(denied[0]?.verb, 'peer.crane');
      assert.match(String(denied[0]?.reason), why);
    });
  }

  test('with a target needs a grant of that very object', async (t) => {
    const { directory, grant, peer, denied } = await scene(t);
    await peer('active');
    const reading = route({
      listener: 'federation',
      method: 'GET',
      path: '/clusters/{cluster}',
      allow: 'peer',
      scope: 'read',
      target: { type: 'cluster', nameFrom: 'cluster' },
      handle: () => ({ status: 200, contentType: 'text/plain', body: 'ok' }),
    });
    const about = (cluster: string) =>
      callRoute(
        reading,
        { ...call, params: { cluster } },
        {
          peers: directory,
        },
      );
    await grant({ scopes: ['read'], offers: ['app1'], clusters: ['app2'] });
    assert.equal((await about('app2')).body, 'ok');
    for (const other of ['app1', 'app2.', 'APP2', '', '*']) {
      await assert.rejects(about(other), { message: 'Denied.' }, other);
    }
    assert.match(String(denied[0]?.reason), /to use the cluster app1$/);
  });

  test('for any identity needs a grant to one of the peer', async (t) => {
    const { directory, grant, peer } = await scene(t);
    await peer('active');
    const found = directory.find(bruges) as LivePeer;
    const lacks = () => directory.lacks(found, { scope: 'write', identity: 'any' }, '192.0.2.7');
    assert.match(lacks() ?? '', /any identity of bruges\.example$/);
    await grant({ nodeInstances: { ids: ['spiffe://bruges.example/web'] } });
    assert.equal(lacks(), undefined);
    await grant({ nodeInstances: { ids: ['spiffe://reval.example/web'] } });
    assert.match(lacks() ?? '', /does not name this identity/);
  });

  test('writes a few denials of a peer into the log, and all into the audit log', async (t) => {
    const { clock, directory, peer, denied, lines } = await scene(t);
    await peer('active');
    const again = async (times: number): Promise<void> => {
      for (let at = 0; at < times; at++) {
        await assert.rejects(callRoute(writing, call, { peers: directory }));
      }
    };
    await again(50);
    assert.equal(denied.length, 50);
    assert.equal(lines.length, 5);
    assert.match(JSON.stringify(lines[0]), /no grant for .*bruges\.example/);
    await clock.advance(10_000);
    await again(5);
    assert.equal(lines.length, 6);
  });

  test('refuses a peer that is suspended while its body arrives', async (t) => {
    const { directory, peer } = await scene(t);
    await peer('active');
    const slow = route({
      listener: 'federation',
      method: 'POST',
      path: '/slow',
      allow: 'peer',
      handle: async (request) => {
        await peer('suspended');
        await request.body(100);
        assert.fail('the body was read');
      },
    });
    await assert.rejects(callRoute(slow, call, { peers: directory }), {
      code: 'HANSA_PEER_REFUSED',
    });
  });
});

suite('denied calls of a peer', () => {
  const reading = route({
    listener: 'federation',
    method: 'GET',
    path: '/clusters/{name}',
    allow: 'peer',
    scope: 'read',
    target: { type: 'cluster', nameFrom: 'name' },
    handle: () => ({ status: 200, contentType: 'text/plain', body: 'ok' }),
  });
  const ask = (directory: PeerDirectory, name: string): Promise<string> =>
    callRoute(reading, { svid: () => bruges, params: { name } }, { peers: directory }).then(
      () => 'ok',
      (error: { readonly code: string }) => error.code,
    );

  test('are limited by a rate, audited, and free again later', async (t) => {
    const { clock, directory, peer, denied } = await scene(t);
    await peer('active');
    const answers: string[] = [];
    for (let count = 0; count < 100; count++) answers.push(await ask(directory, `c${count}`));
    // Any number of names that do not exist share one limit.
    assert.deepEqual([...new Set(answers)], ['HANSA_FORBIDDEN', 'HANSA_TOO_MANY_REQUESTS']);
    assert.equal(answers.filter((code) => code === 'HANSA_FORBIDDEN').length, 20);
    assert.equal(denied.at(-1)?.code, 'HANSA_TOO_MANY_REQUESTS');
    await clock.advance(1000);
    assert.equal(await ask(directory, 'c1'), 'HANSA_FORBIDDEN');
  });

  test('do not delay the calls to a target that a grant covers', async (t) => {
    const { directory, peer, grant, put } = await scene(t);
    await peer('active');
    await put('clusters', 'app1', { spec: {} });
    await put('clusters', 'app2', { spec: {} });
    await grant({ scopes: ['read'], clusters: ['app1'] });
    for (let count = 0; count < 100; count++) await ask(directory, 'app2');
    assert.equal(await ask(directory, 'app2'), 'HANSA_TOO_MANY_REQUESTS');
    assert.equal(await ask(directory, 'app1'), 'ok');
  });

  test('do not tell the peer which targets exist', async (t) => {
    const { directory, peer, put } = await scene(t);
    await peer('active');
    await put('clusters', 'app1', { spec: {} });
    for (let count = 0; count < 100; count++) await ask(directory, `c${count}`);
    assert.equal(await ask(directory, 'app1'), await ask(directory, 'app2'));
  });
});

suite('a wish of an operator', () => {
  test('refuses the peer at once, before its state follows', async (t) => {
    const { directory, put } = await scene(t);
    const status = { state: 'active' };
    const name = 'bruges.example';
    await put('federationpeers', name, { spec: { desiredState: 'suspended' }, status });
    assert.equal(directory.find(bruges), 'bruges.example is suspended');
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    const metadata = { name, uid: 'u1', deletionTimestamp };
    await put('federationpeers', name, { metadata, spec: {}, status });
    assert.equal(directory.find(bruges), 'bruges.example is being deleted');
  });
});
