// Forged invitations and impostor sites, against real daemons.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { encodeInvitation, parseInvitation } from '../../src/peering/handshake/invitation.ts';
import { paths } from '../../src/peering/messages.ts';
import { type PeeringSite, startPair } from './peering-pair.ts';

suite('an invitation', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;
  let novgorod: PeeringSite;

  before(async () => {
    [lubeck, bruges, novgorod] = (await startPair('lubeck', 'bruges', 'novgorod')) as [
      PeeringSite,
      PeeringSite,
      PeeringSite,
    ];
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop(), novgorod?.stop()]));

  test('that was cut, changed or made up is told from a good one', async () => {
    const good = await lubeck.invite(['--for', 'bruges.example']);
    const wrong: readonly [string, RegExp][] = [
      [good.slice(0, -4), /its end is missing/],
      [good.replace(/.(?=.{30}$)/, (c) => (c === 'A' ? 'B' : 'A')), /its checksum does not match/],
      [good.replace('hansa1', 'hansa2'), /has version 2/],
      ['hello', /does not begin with hansa1/],
    ];
    for (const [line, why] of wrong) {
      const { code, stderr } = await bruges.accept(line);
      assert.equal(code, 3, stderr);
      assert.match(stderr, why);
      assert.match(stderr, /HANSA_INVITATION_INVALID/);
    }
    assert.equal(await bruges.peer('lubeck.example'), undefined);
  });

  test('for one site is refused at every other, and at the one that made it', async () => {
    const invitation = await lubeck.invite(['--for', 'bruges.example']);
    const stolen = await novgorod.accept(invitation);
    assert.equal(stolen.code, 7);
    assert.match(stolen.stderr, /it is for bruges\.example.*HANSA_INVITATION_REFUSED/);
    const own = await lubeck.accept(invitation);
    assert.equal(own.code, 7);
    assert.match(own.stderr, /lubeck\.example is this site\./);
  });

  test('that has expired says so', async () => {
    const good = await lubeck.invite();
    // The line as it would be an hour ago; thread-attack.test.ts shows the same with a moved clock.
    const old = { ...parseInvitation(good, 0), expiresAtMs: Date.now() - 3_600_000 };
    const { code, stderr } = await bruges.accept(encodeInvitation(old));
    assert.equal(code, 5);
    assert.match(stderr, /it expired.*Ask lubeck\.example.*HANSA_INVITATION_EXPIRED/);
  });

  test('works once: whoever comes second learns who was first', async () => {
    const invitation = await lubeck.invite();
    assert.equal((await bruges.accept(invitation)).code, 0);
    const { code, stderr } = await novgorod.accept(invitation);
    assert.equal(code, 5);
    assert.match(stderr, /bruges\.example already redeemed .*HANSA_INVITATION_REDEEMED/);
    assert.equal(await novgorod.peer('lubeck.example'), undefined);
    assert.equal(await lubeck.peer('novgorod.example'), undefined);
    await lubeck.must(['peer', 'revoke', 'bruges.example']);
  });

  test('whose address another site answers is not accepted, and nothing is sent', async () => {
    const invitation = await lubeck.invite(['--for', 'novgorod.example']);
    const [prefix, body = ''] = invitation.split('.');
    const fields = JSON.parse(Buffer.from(body, 'base64url').toString()) as Record<string, unknown>;
    // As if the name of lubeck led to bruges: the line is whole, its address is another's.
    const moved = Buffer.from(JSON.stringify({ ...fields, u: bruges.federationUrl }));
    const { createHash } = await import('node:crypto');
    const sum = createHash('sha256').update(moved).digest().subarray(0, 8).toString('base64url');
    const line = `${prefix}.${moved.toString('base64url')}.${sum}`;
    const { code, stderr } = await novgorod.accept(line);
    assert.equal(code, 11, stderr);
    assert.match(stderr, /is not the lubeck\.example of the invitation.*HANSA_PEER_UNTRUSTED/s);
  });

  test('of a site that does not answer is not accepted', async () => {
    const invitation = await lubeck.invite(['--for', 'novgorod.example']);
    await lubeck.stop('SIGKILL');
    const { code, stderr } = await novgorod.accept(invitation);
    assert.equal(code, 8, stderr);
    assert.match(stderr, /Cannot reach lubeck\.example.*HANSA_PEER_UNREACHABLE/s);
    await lubeck.start();
  });

  test('is needed: nobody is a peer by calling, whatever the headers say', async () => {
    const forged = {
      'content-type': 'application/json',
      'x-forwarded-client-cert': 'URI=spiffe://bruges.example/hansa/site',
      'x-forwarded-for': '127.0.0.1',
      authorization: 'Bearer bruges.example',
    };
    const heartbeat = JSON.stringify({ contractVersion: 1, bundleSequence: 9, offers: [] });
    assert.equal(await lubeck.call(paths.heartbeat, heartbeat, forged), 403);
    assert.equal(await lubeck.call(paths.announce, '{"bundleSequence":9}', forged), 403);
    assert.equal(await lubeck.call(paths.redeem, '{}', forged), 403);
    assert.equal(await lubeck.call(paths.preview, '{}', forged), 400);
    assert.equal(await lubeck.call(paths.preview, 'x'.repeat(300_000), forged), 413);
  });
});
