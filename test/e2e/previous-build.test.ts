// A site of the previous build and one of this build become peers, whichever invites. Then the older one updates
// in place. No flag plays the older version: its program comes from the git history.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { RotationStatus } from '../../src/trust/rotation/rotation.ts';
import { launcher, temporaryFolder } from './daemon.ts';
import { PeeringSite } from './peering-pair.ts';
import { unpackPreviousBuild, whyNoPreviousBuild } from './previous-build.ts';
import { until } from './until.ts';
import { allCosigned, conditionOf, heartbeats, logOf } from './witnessing-pair.ts';

const skip = whyNoPreviousBuild();
let previous = '';
if (skip === false) previous = unpackPreviousBuild();

for (const inviterIsOlder of [true, false]) {
  const who = inviterIsOlder ? 'the previous build invites' : 'this build invites';
  suite(`a peering with the previous build, where ${who}`, { skip }, () => {
    let older: PeeringSite;
    let newer: PeeringSite;

    before(async () => {
      const folder = temporaryFolder();
      // One second before a new authority signs, instead of ten minutes.
      const flags = ['--ca-spread-seconds', '1'];
      older = new PeeringSite(folder, 'lubeck', flags, previous);
      newer = new PeeringSite(folder, 'bruges', flags);
      await Promise.all([older.start(), newer.start()]);
    });
    after(() => Promise.all([older?.stop(), newer?.stop()]));

    test('begins with a handshake that agrees on one version, without witnessing', async () => {
      const [inviter, acceptor] = inviterIsOlder ? [older, newer] : [newer, older];
      const { code, stderr } = await acceptor.accept(
        await inviter.invite(['--for', acceptor.name]),
      );
      assert.equal(code, 0, stderr);
      await older.until(newer.name, 'active');
      await newer.until(older.name, 'active');
      assert.match(await newer.must(['peer', 'show', older.name]), /contract +version 1/);
      assert.doesNotMatch(await newer.must(['witness', 'list']), /lubeck/);
      assert.equal(await conditionOfType(newer, older, 'AuditLogWitnessed'), undefined);
    });

    test('goes on with heartbeats in both directions', async () => {
      for (const site of [older, newer]) {
        const [sent, received] = [
          await heartbeats(site, 'sent'),
          await heartbeats(site, 'received'),
        ];
        await until(async () => (await heartbeats(site, 'sent')) >= sent + 2);
        await until(async () => (await heartbeats(site, 'received')) >= received + 2);
      }
      for (const [site, peer] of [
        [older, newer],
        [newer, older],
      ] as const) {
        assert.equal((await site.peer(peer.name))?.state, 'active');
      }
    });

    test('tells grants in both directions', async () => {
      for (const [site, peer] of [
        [older, newer],
        [newer, older],
      ] as const) {
        await offerTo(site, peer);
        const web = `spiffe://${peer.name}/web`;
        await until(async () => {
          const { offers = [] } = (await peer.peer(site.name)) ?? {};
          return JSON.stringify(offers) === JSON.stringify([{ name: 'db', grantedTo: [web] }]);
        }, `${peer.name} does not learn what ${site.name} grants`);
      }
    });

    test('confirms new authorities in both directions', async () => {
      for (const [site, peer] of [
        [older, newer],
        [newer, older],
      ] as const) {
        await rotates(site, peer);
      }
    });

    test('survives the update of the older site in place, and then both witness', async () => {
      await older.stop();
      older.use(launcher);
      await older.start();
      await newer.until(older.name, 'active');
      await older.until(newer.name, 'active');
      await allCosigned(older, newer);
      await allCosigned(newer, older);
      for (const [site, peer] of [
        [older, newer],
        [newer, older],
      ] as const) {
        const key = (await peer.must(['audit', 'checkpoint', '--key'])).trim();
        assert.equal((await logOf(site, peer)).key, key);
        assert.deepEqual(await conditionOf(site, peer), { status: 'True', reason: 'Consistent' });
        assert.match(await site.must(['peer', 'show', peer.name]), /contract +version 1/);
        assert.match(
          await site.must(['audit', 'verify']),
          new RegExp(`cosigned by ${peer.name.replace('.', '\\.')} up to event \\d+`),
        );
      }
      // The log of the previous build is the beginning of this one.
      const events = await older.must(['audit', 'list', '--limit', '1000', '-o', 'json']);
      assert.ok(events.includes('"peer.activate"'), events);
      const check = ['grant', 'check', '--from', `spiffe://${newer.name}/web`, '--offer', 'db'];
      assert.match(await older.must([...check, '--method', 'GET']), /^allowed: /);
      await rotates(older, newer);
    });
  });
}

async function offerTo(site: PeeringSite, peer: PeeringSite): Promise<void> {
  const offer = {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'ServiceOffer',
    metadata: { name: 'db' },
    spec: { spiffeID: `spiffe://${site.name}/db` },
  };
  await site.must(['apply', '-f', '-'], JSON.stringify(offer));
  const grant = ['grant', 'create', 'db', '--peer', peer.name, '--offer', 'db'];
  const axes = ['--identity', `spiffe://${peer.name}/web`, '--any-network', '--any-address'];
  await site.must([...grant, ...axes]);
}

async function rotates(site: PeeringSite, peer: PeeringSite): Promise<void> {
  const told = await site.must(['trust', 'rotate', '-o', 'json']);
  const { authorities, unconfirmed } = JSON.parse(told) as RotationStatus;
  assert.deepEqual(unconfirmed, []);
  const active = authorities.find(({ kind, state }) => kind === 'x509' && state === 'active');
  const held = await peer.must(['trust', 'bundle', 'fingerprint', site.name, '-o', 'json']);
  assert.ok(active !== undefined && held.includes(active.id), held);
}

/** The condition of this type that `site` has about its peer. */
async function conditionOfType(
  site: PeeringSite,
  peer: PeeringSite,
  type: string,
): Promise<unknown> {
  const text = await site.must(['get', 'federationpeers', peer.name, '-o', 'json']);
  const { status } = JSON.parse(text) as {
    readonly status?: { readonly conditions?: readonly { readonly type: string }[] };
  };
  return status?.conditions?.find((one) => one.type === type);
}
