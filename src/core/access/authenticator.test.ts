import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { HansaError } from '../errors/error.ts';
import type { Authenticator, PeerSvid, Presented } from './authenticator.ts';
import { FailureLimit, sourceOf } from './failure-limit.ts';
import { socketOwner, tokenSegment } from './identity.ts';
import { openScene, type Scene } from './test-scene.ts';
import { createToken, revokeToken } from './token-operations.ts';

const hour = 3_600_000;

function peer({ clock }: Scene, id: string, ttlMs = hour): PeerSvid {
  return { id: SpiffeId.parse(id), serialHex: '0a1b', notAfterMs: clock.now() + ttlMs };
}

let addresses = 0;
/** From an address of its own each time, so that failures do not add up. */
function tls(presented: Partial<Presented>): Presented {
  addresses += 1;
  return { listener: 'tls', address: `192.0.2.${addresses}`, ...presented };
}

function refused(authenticator: Authenticator, presented: Presented): void {
  assert.throws(
    () => authenticator.authenticate(presented),
    (error: unknown) =>
      error instanceof HansaError &&
      error.code === 'HANSA_UNAUTHENTICATED' &&
      error.message === 'Unauthorized',
  );
}

test('a user SVID of the own trust domain makes its user', async () => {
  const scene = await openScene();
  const caller = scene.authenticator.authenticate(
    tls({ peer: peer(scene, 'spiffe://lubeck.example/hansa/user/alice') }),
  );
  assert.deepEqual(caller, {
    user: 'alice',
    groups: ['system:authenticated'],
    via: 'certificate',
    credential: '0a1b',
    origin: 'socket',
  });
});

test('the user admin is in the group of admins, as only the owner of the data folder obtains that name', async () => {
  const scene = await openScene();
  const caller = scene.authenticator.authenticate(
    tls({ peer: peer(scene, 'spiffe://lubeck.example/hansa/user/admin') }),
  );
  assert.deepEqual(caller.groups, ['hansa:admins', 'system:authenticated']);
});

test('no other certificate makes a user', async () => {
  const scene = await openScene();
  for (const id of [
    'spiffe://bruges.example/hansa/user/alice',
    'spiffe://lubeck.example/hansa/site',
    'spiffe://lubeck.example/hansa/agent/alice',
    'spiffe://lubeck.example/hansa/bot/alice',
    'spiffe://lubeck.example/hansa/user',
    'spiffe://lubeck.example/hansa/user/alice/more',
    'spiffe://lubeck.example/hansa/user/Alice',
    'spiffe://lubeck.example/hansa/users/alice',
    'spiffe://lubeck.example/user/alice',
    'spiffe://lubeck.example/web',
    'spiffe://lubeck.example',
    'spiffe://lubeck.example/hansa/user/token.ci.0123456789abcdef',
    'spiffe://lubeck.example/hansa/user/token.ci',
  ])
    refused(scene.authenticator, tls({ peer: peer(scene, id) }));
});

test('a certificate that expires on an open connection is refused with the next request', async () => {
  const scene = await openScene();
  const alice = peer(scene, 'spiffe://lubeck.example/hansa/user/alice');
  scene.authenticator.authenticate(tls({ peer: alice }));
  await scene.clock.advance(hour);
  scene.authenticator.authenticate(tls({ peer: alice }));
  await scene.clock.advance(1);
  refused(scene.authenticator, tls({ peer: alice }));
});

test('a bearer token makes its user until it is revoked', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  for (const authorization of [`Bearer ${token}`, `bearer ${token}`, `BEARER  ${token} `])
    assert.deepEqual(scene.authenticator.authenticate(tls({ authorization })), {
      user: 'token:ci',
      groups: ['hansa:tokens', 'system:authenticated'],
      via: 'token',
      credential: 'ci',
      origin: 'token',
      tokenId: scene.tokens.get('ci')?.id,
    });
  await revokeToken(scene, socketOwner, 'ci');
  refused(scene.authenticator, tls({ authorization: `Bearer ${token}` }));
});

test('bad headers, and none, are refused alike', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  const swapped = token.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
  for (const authorization of [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    token,
    `Basic ${token}`,
    `Bearer ${swapped}`,
    `Bearer ${token.slice(0, -1)}`,
    `Bearer ${token}${token}`,
    `Bearer ${token} x`,
    `Bearer hansa_${'A'.repeat(48)}`,
    `Bearer ${'x'.repeat(100_000)}`,
    `Bearer\t${token}`,
  ])
    refused(scene.authenticator, tls({ authorization }));
});

test('a certificate of a token lives and dies with that very token', async () => {
  const scene = await openScene();
  await createToken(scene, socketOwner, { name: 'ci', role: 'viewer', ttlSeconds: 1800 });
  const segment = (): string => tokenSegment('ci', scene.tokens.get('ci')?.id ?? '');
  const first = peer(scene, `spiffe://lubeck.example/hansa/user/${segment()}`);
  assert.deepEqual(scene.authenticator.authenticate(tls({ peer: first })), {
    user: 'token:ci',
    groups: ['hansa:tokens', 'system:authenticated'],
    via: 'certificate',
    credential: '0a1b',
    origin: 'token',
    tokenId: scene.tokens.get('ci')?.id,
  });
  await revokeToken(scene, socketOwner, 'ci');
  refused(scene.authenticator, tls({ peer: first }));
  await createToken(scene, socketOwner, { name: 'ci', role: 'admin', ttlSeconds: 1800 });
  refused(scene.authenticator, tls({ peer: first }));
  const second = peer(scene, `spiffe://lubeck.example/hansa/user/${segment()}`);
  scene.authenticator.authenticate(tls({ peer: second }));
  await scene.clock.advance(1_800_000);
  refused(scene.authenticator, tls({ peer: second }));
});

test('with a certificate and a token the certificate counts, and a foreign one is passed over', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  const authorization = `Bearer ${token}`;
  const own = peer(scene, 'spiffe://lubeck.example/hansa/user/alice');
  const foreign = peer(scene, 'spiffe://bruges.example/hansa/user/alice');
  const userOf = (presented: Partial<Presented>): string =>
    scene.authenticator.authenticate(tls(presented)).user;
  assert.equal(userOf({ peer: own, authorization }), 'alice');
  assert.equal(userOf({ peer: foreign, authorization }), 'token:ci');
});

test('the admin socket is its owner, unless a token is presented there', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  const admin = (authorization?: string): Presented => ({
    listener: 'admin',
    address: 'socket',
    authorization,
  });
  assert.equal(scene.authenticator.authenticate(admin()), socketOwner);
  assert.equal(scene.authenticator.authenticate(admin(`Bearer ${token}`)).user, 'token:ci');
  refused(scene.authenticator, admin('Bearer wrong'));
});

test('the same credential gives the same caller object', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  const alice = peer(scene, 'spiffe://lubeck.example/hansa/user/alice');
  for (const presented of [{ peer: alice }, { authorization: `Bearer ${token}` }])
    assert.equal(
      scene.authenticator.authenticate(tls(presented)),
      scene.authenticator.authenticate(tls(presented)),
    );
});

test('an address that fails too often is told to wait, while good credentials from it still work', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  const from = (authorization: string): Presented => ({
    listener: 'tls',
    address: '198.51.100.7',
    authorization,
  });
  for (let count = 0; count < 20; count += 1) refused(scene.authenticator, from('Bearer wrong'));
  assert.throws(() => scene.authenticator.authenticate(from('Bearer wrong')), {
    code: 'HANSA_TOO_MANY_REQUESTS',
    details: { retryAfterSeconds: 1 },
  });
  scene.authenticator.authenticate(from(`Bearer ${token}`));
  await scene.clock.advance(1000);
  refused(scene.authenticator, from('Bearer wrong'));
});

test('failures are remembered for a bounded number of addresses', async () => {
  const { clock } = await openScene();
  const limit = new FailureLimit(clock);
  for (let index = 0; index < 10_000; index += 1) limit.failed(`10.0.${index >> 8}.${index & 255}`);
  assert.equal(limit.size, 4096);
});

test('an IPv6 host counts as one source with all the addresses of its network', () => {
  assert.equal(sourceOf('192.0.2.1'), '192.0.2.1');
  assert.equal(sourceOf('::ffff:192.0.2.1'), '::ffff:192.0.2.1');
  assert.equal(sourceOf('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64');
  assert.equal(sourceOf('2001:db8:1:2::1'), '2001:db8:1:2::/64');
  assert.equal(sourceOf('2001:db8::1'), '2001:db8:0:0::/64');
  assert.equal(sourceOf('::1'), '0:0:0:0::/64');
});

test('why a credential was refused is kept for the log, without the credential', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  await revokeToken(scene, socketOwner, 'ci');
  try {
    scene.authenticator.authenticate(tls({ authorization: `Bearer ${token}` }));
    assert.fail('it was accepted');
  } catch (error) {
    assert.ok(error instanceof HansaError);
    assert.equal(error.cause, 'the token is unknown, revoked, expired or malformed');
  }
});
