import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { systemRandom } from '../../core/clock/system.ts';
import type { SiteAuthority } from '../../core/identity/authority/authority.ts';
import { generateP256, PublicKey } from '../../core/identity/x509/keys.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import {
  check,
  openAuthority,
  ownUid,
  put,
  putEntry,
  putFederation,
  remove,
} from '../workload/test-workload-site.ts';
import { onSiteAndAgent, type WorkloadHost } from '../agent/test-workload-hosts.ts';

const web = 'spiffe://bruges.example/web';

/** lubeck serves db; bruges is an active peer; there is a grant. */
async function scene(t: TestContext, host: WorkloadHost) {
  const site = await host.site(t);
  const { store, socket, clock } = site;
  const bruges = await openAuthority('bruges.example', clock);
  await putFederation(store, bruges);
  await putEntry(store, 'db', { federatesWith: ['*'] });
  await put(store, 'serviceoffers', 'db', { spec: { spiffeID: 'spiffe://lubeck.example/db' } });
  const peer = (state: string) =>
    put(store, 'federationpeers', 'bruges.example', {
      spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
      status: { state },
    });
  const grant = (spec: object = {}) =>
    put(store, 'federationgrants', 'bruges-db', {
      spec: {
        peer: 'bruges.example',
        offers: ['db'],
        nodeInstances: { ids: [web] },
        networks: { unrestricted: true },
        sourceCIDRs: { cidrs: ['192.0.2.0/24'] },
        ...spec,
      },
    });
  await peer('active');
  await grant();
  const asked = { principal: web, offer: 'db', address: '192.0.2.7' };
  const code = async (question: Parameters<typeof check>[1] = {}) =>
    (await check(socket, { ...asked, ...question })).status?.code;
  return { ...site, bruges, peer, grant, code, asked };
}

async function leafOf(authority: SiteAuthority, id: string): Promise<string> {
  const key = await generateP256(systemRandom);
  const { chain } = await authority.issue({
    spiffeId: SpiffeId.parse(id),
    publicKey: PublicKey.of(key),
  });
  return encodeURIComponent(certificatePem(chain[0] as Buffer));
}

onSiteAndAgent('ext_authz', (host) => {
  test('allows what a grant covers', async (t) => {
    const { code, denials } = await scene(t, host);
    assert.equal(await code(), status.OK);
    assert.equal(denials.length, 0);
  });

  test('says no more than denied to the caller, and why to the operator', async (t) => {
    const { socket, denials, asked } = await scene(t, host);
    const answer = await check(socket, { ...asked, principal: 'spiffe://bruges.example/other' });
    assert.equal(answer.status?.code, status.PERMISSION_DENIED);
    assert.equal(answer.status.message, 'denied');
    assert.equal(answer.deniedResponse?.status?.code, 403);
    assert.equal(answer.deniedResponse.body, 'denied');
    if (!host.audits) return;
    assert.equal(denials.length, 1);
    assert.deepEqual(denials[0]?.claim, {
      user: 'spiffe://bruges.example/other',
      address: '192.0.2.7',
    });
    assert.equal(denials[0].name, 'db');
    assert.match(denials[0].reason ?? '', /bruges-db does not name this identity/);
  });

  test('records a denial in the name of the asker, whomever it asks about', async (t) => {
    const { code, denials, store } = await scene(t, host);
    await remove(store, 'federationgrants', 'bruges-db');
    const victims = [web, 'spiffe://lubeck.example/hansa/site', 'spiffe://lubeck.example/db'];
    for (const principal of victims) await code({ principal });
    if (!host.audits) return;
    assert.deepEqual(
      denials.map(({ actor }) => [actor.user, actor.via, actor.address]),
      victims.map(() => [`unix:uid:${ownUid}`, 'workload', undefined]),
    );
    assert.deepEqual(
      denials.map(({ claim }) => claim?.user),
      victims,
    );
  });

  test('follows the state of the peer at once', async (t) => {
    const { code, peer } = await scene(t, host);
    await peer('suspended');
    assert.equal(await code(), status.PERMISSION_DENIED);
    await peer('degraded');
    assert.equal(await code(), status.OK);
    await peer('revoked');
    assert.equal(await code(), status.PERMISSION_DENIED);
  });

  test('denies without a grant, from another address, over a named network, after the end', async (t) => {
    const { code, grant, store } = await scene(t, host);
    assert.equal(await code({ address: '198.51.100.1' }), status.PERMISSION_DENIED);
    assert.equal(await code({ address: '' }), status.PERMISSION_DENIED);
    await grant({ networks: { ids: ['backbone'] } });
    assert.equal(await code(), status.PERMISSION_DENIED);
    await grant({ expiresAt: '2020-01-01T00:00:00Z' });
    assert.equal(await code(), status.PERMISSION_DENIED);
    await grant();
    assert.equal(await code(), status.OK);
    await remove(store, 'federationgrants', 'bruges-db');
    assert.equal(await code(), status.PERMISSION_DENIED);
  });

  test('admits GET, HEAD and OPTIONS with read, and every other method with write', async (t) => {
    const { code, grant } = await scene(t, host);
    const { OK, PERMISSION_DENIED } = status;
    const reads = ['GET', 'HEAD', 'OPTIONS'];
    // Methods are case-sensitive (RFC 9110 section 9.1): get is not GET.
    const writes = [
      'POST',
      'PUT',
      'PATCH',
      'DELETE',
      'CONNECT',
      'TRACE',
      'PURGE',
      'get',
      'Get',
      '',
    ];
    for (const [scopes, readCode, writeCode] of [
      [['read'], OK, PERMISSION_DENIED],
      [['write'], PERMISSION_DENIED, OK],
      [['read', 'write'], OK, OK],
      [['admin'], PERMISSION_DENIED, PERMISSION_DENIED],
      [undefined, OK, PERMISSION_DENIED],
    ] as const) {
      await grant({ scopes });
      for (const method of reads) {
        assert.equal(await code({ method }), readCode, `${String(scopes)} ${method}`);
      }
      for (const method of writes) {
        assert.equal(await code({ method }), writeCode, `${String(scopes)} ${method}`);
      }
    }
  });

  test('admits a connection without methods with any scope', async (t) => {
    const { code, grant } = await scene(t, host);
    for (const scope of ['read', 'write', 'admin']) {
      await grant({ scopes: [scope] });
      assert.equal(await code(), status.OK, scope);
    }
  });

  test('takes no scope that does not exist from a grant of an older version', async (t) => {
    const { code, grant } = await scene(t, host);
    for (const scopes of [[], ['nothing-at-all'], ['READ'], ['*'], 'read', 7, null]) {
      await grant({ scopes });
      assert.equal(await code(), status.PERMISSION_DENIED, JSON.stringify(scopes));
      assert.equal(await code({ method: 'GET' }), status.PERMISSION_DENIED, JSON.stringify(scopes));
    }
    await grant({ scopes: ['nothing-at-all', 'read'] });
    assert.equal(await code({ method: 'GET' }), status.OK);
  });

  test('denies a caller that claims to come from any address', async (t) => {
    const { code } = await scene(t, host);
    assert.equal(await code({ address: 'any' }), status.PERMISSION_DENIED);
  });

  test('denies callers of other trust domains, of our own, and such that are nobody', async (t) => {
    const { code } = await scene(t, host);
    for (const principal of [
      'spiffe://novgorod.example/web',
      'spiffe://lubeck.example/web',
      'spiffe://bruges.example',
      'CN=web',
      '',
    ]) {
      assert.equal(await code({ principal }), status.PERMISSION_DENIED, principal);
    }
  });

  test('answers only the workload that serves the offer', async (t) => {
    const { code, store, denials } = await scene(t, host);
    await putEntry(store, 'db', { selectors: [`unix:uid:${ownUid + 1}`] });
    assert.equal(await code(), status.PERMISSION_DENIED);
    if (host.audits) assert.match(denials[0]?.reason ?? '', /may ask about db/);
    assert.equal(await code({ offer: 'nothing' }), status.PERMISSION_DENIED);
    assert.equal(await code({ offer: '' }), status.PERMISSION_DENIED);
  });

  test('believes a certificate by the bundle of its trust domain, and only of whom it names', async (t) => {
    const { code, bruges, clock } = await scene(t, host);
    const certificate = await leafOf(bruges, web);
    assert.equal(await code({ certificate }), status.OK);
    assert.equal(await code({ certificate, principal: '' }), status.OK);
    const named = { certificate, principal: 'spiffe://bruges.example/other' };
    assert.equal(await code(named), status.PERMISSION_DENIED);
    const impostor = await openAuthority('bruges.example', clock);
    const forged = await leafOf(impostor, web);
    assert.equal(await code({ certificate: forged }), status.PERMISSION_DENIED);
    for (const broken of ['%', 'web', certificate.slice(0, 200), 'x'.repeat(70_000)]) {
      assert.equal(await code({ certificate: broken }), status.PERMISSION_DENIED);
    }
    clock.offsetMs = 2 * 3_600_000;
    assert.equal(await code({ certificate }), status.PERMISSION_DENIED);
  });
});
