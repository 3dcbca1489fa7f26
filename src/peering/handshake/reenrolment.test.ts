// A peer that lost its keys starts over: what ends, what stays, and who cannot take its place.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { enrolmentOf } from '../../api/enrolment.ts';
import { approvalKind } from '../../api/kinds/approval.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { tokenCaller } from '../../core/access/identity.ts';
import { keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { validateChain } from '../../core/identity/x509/svid-validator.ts';
import { kindReader } from '../../core/store/reader.ts';
import { revokeRequest } from '../approval-actions.ts';
import { peerDirectory } from '../peers/peer-directory.ts';
import { peerHint } from '../peers/peer-hints.ts';
import { peersCollection } from '../peers/peer-repository.ts';
import { peeringError } from '../errors.ts';
import { acceptAgain, inviteAgain, reenrolsHere } from './reenrolment.ts';
import { secretPlace } from './acceptances.ts';
import type { Acceptor } from './acceptor.ts';
import { type Invitation, invitationId, secretDigest } from './invitation.ts';
import { documentOf, type TestIdentity } from './test-handshake.ts';
import { type TestPeerSite, testPeerSite } from './test-peer-site.ts';
import {
  bruges,
  brugesAt,
  lost,
  owner,
  printOf,
  rebuilt,
  redeemAgain,
  reenrol,
  withBruges,
} from './test-reenrolment.ts';

const { signal } = new AbortController();
const approvals = kindReader(approvalKind);
const statusAt = async (site: TestPeerSite) => (await brugesAt(site)).status ?? {};
const keysOf = ({ authority }: TestIdentity) => keyDigests(authority.bundle);
const hintAt = async (site: TestPeerSite): Promise<string> => {
  const { state = '', role = '', cause } = await statusAt(site);
  return peerHint({ name: bruges, state, role, ...(cause === undefined ? {} : { cause }) });
};
const bootstrapOf = async ({ federations }: TestPeerSite): Promise<string | undefined> =>
  (await federations.get(bruges))?.spec.bundleSource.httpsSpiffe?.bundleBootstrap;

suite('a re-enrolment', () => {
  test('ends at once what counted under the lost keys, and keeps the peer', async () => {
    const site = await withBruges();
    const before = await brugesAt(site);
    site.store.facts.merge(peersCollection, bruges, { uid: before.metadata.uid });
    await reenrol(site);
    await site.handshake.reconcile(bruges, signal);
    const { metadata, status } = await brugesAt(site);
    assert.equal(metadata.uid, before.metadata.uid);
    assert.equal(status?.state, 'proposed');
    assert.equal(status.reenrolments, 1);
    assert.deepEqual(
      status.lostKeys,
      keyDigests(lost.authority.bundle).map((key) => key.toString('hex')),
    );
    for (const ended of [
      'offers',
      'receipt',
      'contractVersion',
      'fingerprint',
      'acceptance',
    ] as const) {
      assert.equal(status[ended], undefined, ended);
    }
    assert.equal(await site.federations.get(bruges), undefined);
    assert.equal(site.store.facts.get(peersCollection, bruges), undefined);
    assert.equal(site.inviter.invitations.get('first')?.value.redeemed?.state, 'revoked');
    assert.notEqual(enrolmentOf({ metadata, status }), enrolmentOf(before));
    const row = site.rows.find(({ verb }) => verb === 'peer.reenrol');
    assert.match(
      row?.reason ?? '',
      /^active → proposed: .*start over with new keys: invited bruges/,
    );
    assert.match(await hintAt(site), /hansa peer accept.*hansa peer reenrol bruges\.example/);
  });

  test('rejects the holder of the lost keys at the federation API', async () => {
    const site = await withBruges();
    const { trustDomain, store, clock, audit } = site.parts;
    const log = { warn: () => undefined };
    const directory = peerDirectory({ trustDomain, store, clock, audit, log });
    const trusted = { bundleFor: () => lost.authority.bundle };
    const svid = validateChain(lost.chain, trusted, clock.now());
    assert.notEqual(typeof directory.find(svid), 'string');
    await reenrol(site);
    assert.equal(directory.find(svid), 'bruges.example is proposed');
  });

  test('makes the peer again of the site with the keys that the invitation names', async () => {
    const site = await withBruges();
    const { uid } = (await brugesAt(site)).metadata;
    const made = await reenrol(site, { forKeys: printOf(rebuilt) });
    await assert.rejects(redeemAgain(site, made, lost), { code: 'HANSA_INVITATION_REFUSED' });
    const peer = await redeemAgain(site, made);
    assert.equal(peer?.status?.state, 'enrolled');
    assert.equal(peer.metadata.uid, uid);
    assert.equal(peer.spec.url, 'https://bruges.example:9443/');
    assert.equal(peer.status.fingerprint, printOf(rebuilt));
    assert.equal(await bootstrapOf(site), documentOf([rebuilt]));
    assert.ok(peer.status.acceptance?.completedAt !== undefined);
    // A repeated redemption, after a lost answer, changes nothing.
    const { revision } = site.store;
    await redeemAgain(site, made);
    assert.equal(site.store.revision, revision);
  });

  test('waits for a confirmation where the invitation names no keys', async () => {
    const site = await withBruges();
    const peer = await redeemAgain(site, await reenrol(site));
    assert.equal(peer?.status?.state, 'proposed');
    assert.equal(peer.status.fingerprint, printOf(rebuilt));
    assert.match(peer.status.reason ?? '', /needs confirmation, because it has new keys/);
    assert.match(await hintAt(site), /hansa peer confirm bruges\.example/);
    assert.equal(await site.federations.get(bruges), undefined);
    await site.inviter.confirm(bruges, owner);
    await site.handshake.reconcile(bruges, signal);
    assert.equal((await statusAt(site)).state, 'enrolled');
    assert.equal(await bootstrapOf(site), documentOf([rebuilt]));
  });

  test('is confirmed by no acceptance from before it', async () => {
    const site = await withBruges();
    const { uid } = (await brugesAt(site)).metadata;
    // This site had accepted an invitation with a key that the peer replaced since, so it is not among the lost ones.
    const before = {
      invitation: 'earlier',
      url: 'https://bruges.example:8443/',
      keys: keysOf(rebuilt).map((key) => key.toString('hex')),
      expiresAtMs: 0,
      atMs: 0,
      state: 'accepted',
      consent: 'two-person',
      madeUid: uid,
    } as const;
    await site.handshake.acceptances.put(bruges, undefined, before);
    await redeemAgain(site, await reenrol(site));
    await site.handshake.reconcile(bruges, signal);
    assert.equal((await statusAt(site)).state, 'proposed');
    assert.equal(site.handshake.acceptances.get(bruges), undefined);
  });

  test('rejects every lost key, also one among new ones, and later again', async () => {
    const site = await withBruges();
    for (let round = 0; round < 2; round++) {
      const made = await reenrol(site);
      for (const document of [documentOf([lost]), documentOf([lost, rebuilt])]) {
        await assert.rejects(redeemAgain(site, made, lost, document), {
          code: 'HANSA_INVITATION_REFUSED',
          message: /a key from before.*hansa trust rotate --emergency --fresh/,
        });
      }
      const both = documentOf([rebuilt, lost]);
      await assert.rejects(redeemAgain(site, made, rebuilt, both), /a key from before/);
      assert.match(
        site.denials.at(-1)?.reason ?? '',
        /contains a key that bruges\.example has lost/,
      );
      assert.equal((await statusAt(site)).state, 'proposed');
    }
  });

  test('takes no ordinary invitation instead', async () => {
    const site = await withBruges();
    await reenrol(site);
    const ordinary = await site.inviter.invite(owner, { for: rebuilt.trustDomain });
    await assert.rejects(redeemAgain(site, ordinary), /already a peer \(proposed\)/);
  });

  for (const [how, end, said] of [
    ['expires', (site: TestPeerSite) => site.clock.advance(16 * 60_000), /expired/],
    [
      'is cancelled',
      async (site: TestPeerSite) =>
        site.inviter.invitations.change((await statusAt(site)).invitation ?? '', (record) => ({
          ...record,
          cancelled: { atMs: site.clock.now(), by: 'alice' },
        })),
      /was cancelled by alice/,
    ],
  ] as const) {
    test(`whose invitation ${how} says so, and goes on with another`, async () => {
      const site = await withBruges();
      const first = await reenrol(site);
      const open = await site.handshake.reconcile(bruges, signal);
      assert.equal(open?.requeueAfterMs, 15 * 60_000);
      await end(site);
      await site.handshake.reconcile(bruges, signal);
      const { state, cause, reason = '', invitation } = await statusAt(site);
      assert.deepEqual([state, cause, invitation], ['proposed', 'NeedsInvitation', undefined]);
      assert.match(reason, said);
      assert.match(await hintAt(site), /hansa peer reenrol bruges\.example.*hansa peer revoke/);
      assert.equal(site.rows.at(-1)?.verb, 'invitation.end');
      const second = await reenrol(site, { forKeys: printOf(rebuilt) });
      assert.equal((await statusAt(site)).reenrolments, 2);
      assert.equal((await redeemAgain(site, second))?.status?.state, 'enrolled');
      assert.notEqual(first.id, second.id);
    });
  }

  test('that nobody confirms in time keeps the peer, and ends the redemption', async () => {
    const site = await withBruges();
    const made = await reenrol(site);
    await redeemAgain(site, made);
    await site.clock.advance(5 * 3_600_000);
    for (let round = 0; round < 2; round++) await site.handshake.reconcile(bruges, signal);
    const { state, cause, fingerprint } = await statusAt(site);
    assert.deepEqual([state, cause, fingerprint], ['proposed', 'NeedsInvitation', undefined]);
    await assert.rejects(site.inviter.confirm(bruges, owner), { code: 'HANSA_NOT_FOUND' });
    assert.equal(site.inviter.invitations.get(made.id)?.value.redeemed?.state, 'revoked');
    const again = await reenrol(site);
    assert.equal((await statusAt(site)).invitation, again.id);
  });

  test('ends the redemption of an impostor with another invitation', async () => {
    const site = await withBruges();
    const first = await reenrol(site);
    await redeemAgain(site, first);
    const second = await reenrol(site);
    await assert.rejects(site.inviter.confirm(bruges, owner), { code: 'HANSA_NOT_FOUND' });
    assert.equal(site.inviter.invitations.get(first.id)?.value.redeemed?.state, 'revoked');
    assert.equal((await statusAt(site)).fingerprint, undefined);
    const third = await reenrol(site);
    await assert.rejects(redeemAgain(site, second), /a newer invitation .* has replaced it/);
    await redeemAgain(site, third);
    await site.inviter.confirm(bruges, owner);
    await site.handshake.reconcile(bruges, signal);
    assert.equal((await statusAt(site)).state, 'enrolled');
  });

  test('that two operators begin at once has one invitation', async () => {
    const site = await withBruges();
    const peer = await brugesAt(site);
    const both = await Promise.allSettled(
      [0, 1].map(() => inviteAgain(site.parts, peer, {}, owner, undefined)),
    );
    const made = both.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const [failed] = both.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    assert.equal(made.length, 1);
    assert.equal((failed as { readonly code?: string }).code, 'HANSA_CONFLICT');
    assert.equal((await statusAt(site)).invitation, made[0]?.id);
    assert.equal(site.inviter.invitations.list().length, 2);
  });

  test('is refused for a peer that is revoked, or never was enrolled', async () => {
    const site = await withBruges();
    await site.handshake.revoke(bruges, owner);
    await assert.rejects(reenrol(site), {
      code: 'HANSA_PEER_STATE',
      message: /it is revoked\. .*exchange a new invitation/,
    });
    const other = await testPeerSite();
    await other.redeem(bruges, {}, { confirmation: 'a test' });
    await other.handshake.reconcile(bruges, signal);
    await assert.rejects(reenrol(other), { code: 'HANSA_PEER_STATE', message: /it is proposed/ });
  });

  test('of a revoked or deleted peer cannot be completed', async () => {
    for (const end of [
      (site: TestPeerSite) => site.handshake.revoke(bruges, owner),
      async (site: TestPeerSite) => {
        await site.peerObjects.delete(bruges, { controller: 'someone' });
        await site.handshake.reconcile(bruges, signal);
      },
    ]) {
      const site = await withBruges();
      const made = await reenrol(site, { forKeys: printOf(rebuilt) });
      await end(site);
      await assert.rejects(
        redeemAgain(site, made),
        /it was to re-enrol a peer, and that has ended/,
      );
      assert.notEqual((await site.peers.get(bruges))?.status?.state, 'enrolled');
    }
  });

  test('ends the approvals about the peer, and not those about others', async () => {
    const site = await withBruges();
    const ci = { caller: tokenCaller('ci'), origin: {} };
    const peer = await brugesAt(site);
    for (const about of [peer, { ...peer, metadata: { ...peer.metadata, uid: 'other' } }]) {
      const asked = revokeRequest(bruges, about);
      assert.ok(asked !== undefined);
      await assert.rejects(site.parts.approvals.allow(asked, ci), {
        code: 'HANSA_APPROVAL_REQUIRED',
      });
    }
    await reenrol(site);
    const states = approvals
      .list(site.store)
      .map(({ spec, status }) => [spec.target.uid === 'other', status?.state, status?.reason]);
    assert.deepEqual(
      states.toSorted(([one], [other]) => Number(one) - Number(other)),
      [
        [false, 'rejected', 'bruges.example was re-enrolled'],
        [true, 'pending', undefined],
      ],
    );
  });

  test('of a suspended peer leaves it suspended', async () => {
    const site = await withBruges();
    const suspended = (peer: FederationPeer) => ({
      ...peer.spec,
      desiredState: 'suspended' as const,
    });
    await site.peerObjects.patchSpec(bruges, suspended, { controller: 'someone' });
    await site.handshake.reconcile(bruges, signal);
    const made = await reenrol(site, { forKeys: printOf(rebuilt) });
    const peer = await redeemAgain(site, made);
    assert.equal(peer?.status?.state, 'suspended');
    assert.equal((await site.federations.get(bruges))?.spec.quarantined, true);
    assert.equal(await bootstrapOf(site), documentOf([rebuilt]));
  });

  test('lets no late step of another replica bring the lost keys back', async () => {
    const site = await withBruges();
    const before = await brugesAt(site);
    await reenrol(site);
    await assert.rejects(site.parts.federations.keep(before, documentOf([lost]), false), {
      code: 'HANSA_CONFLICT',
    });
    assert.equal(await site.federations.get(bruges), undefined);
  });
});

suite('a site with new keys that accepts its re-enrolment', () => {
  const secret = Buffer.alloc(32, 9);
  /** bruges re-enrols this site. It has kept its keys, or it says so. */
  const from = (site: TestPeerSite, keys: readonly Buffer[], more: Partial<Invitation> = {}) => ({
    url: new URL('https://bruges.example:8443/'),
    trustDomain: lost.trustDomain,
    keys,
    secret,
    expiresAtMs: site.clock.now() + 60_000,
    reenrols: true as const,
    ...more,
  });
  const acceptFrom = async (site: TestPeerSite, invitation: Invitation): Promise<void> => {
    const peer = await brugesAt(site);
    const again = await reenrolsHere(site.parts, peer, invitation);
    assert.ok(again !== undefined);
    const { name } = invitation.trustDomain;
    const id = invitationId(secretDigest(invitation.secret));
    const sealed = await site.parts.sealer.seal(secretPlace(name, id), invitation.secret);
    const record = {
      invitation: id,
      url: invitation.url.href,
      keys: again.keys.map((key) => key.toString('hex')),
      expiresAtMs: invitation.expiresAtMs,
      atMs: site.clock.now(),
      state: 'proposed',
      secret: sealed.toString('base64'),
    } as const;
    const known = site.handshake.acceptances.get(name);
    await acceptAgain(site.parts, peer, known, record, [], owner, undefined);
  };
  const redeemAt =
    (identity: TestIdentity): Acceptor['redeem'] =>
    async () => ({ state: 'accepted', contractVersion: 1, document: documentOf([identity]) });

  test('keeps its peer, whose keys it still knows', async () => {
    const site = await withBruges({ redeem: redeemAt(lost) });
    const { uid } = (await brugesAt(site)).metadata;
    await acceptFrom(site, from(site, keysOf(lost)));
    assert.equal((await statusAt(site)).state, 'proposed');
    assert.equal(await site.federations.get(bruges), undefined);
    await site.handshake.reconcile(bruges, signal);
    const { metadata, status } = await brugesAt(site);
    assert.deepEqual([metadata.uid, status?.state, status?.role], [uid, 'enrolled', 'acceptor']);
    assert.equal(status?.lostKeys, undefined);
    assert.equal(await bootstrapOf(site), documentOf([lost]));
  });

  test('gives the place of its peer to no other keys', async () => {
    const site = await withBruges();
    const { revision } = site.store;
    const invitation = from(site, keysOf(rebuilt));
    await assert.rejects(reenrolsHere(site.parts, await brugesAt(site), invitation), {
      code: 'HANSA_INVITATION_REFUSED',
      message: /pins none of the keys that this site knows.*hansa peer reenrol bruges\.example/,
    });
    assert.equal(site.store.revision, revision);
    const { reenrols: _none, ...ordinary } = from(site, keysOf(lost));
    assert.equal(await reenrolsHere(site.parts, await brugesAt(site), ordinary), undefined);
  });

  test('accepts other keys after an operator said that the known ones are lost', async () => {
    const site = await withBruges({ redeem: redeemAt(rebuilt) });
    await reenrol(site);
    const lostOne = from(site, keysOf(lost));
    await assert.rejects(reenrolsHere(site.parts, await brugesAt(site), lostOne), {
      code: 'HANSA_INVITATION_REFUSED',
      message: /pins a key of bruges\.example that is lost/,
    });
    await acceptFrom(site, from(site, keysOf(rebuilt)));
    await site.handshake.reconcile(bruges, signal);
    const { state, role } = await statusAt(site);
    assert.deepEqual([state, role], ['enrolled', 'acceptor']);
    assert.equal(await bootstrapOf(site), documentOf([rebuilt]));
  });

  test('that is rejected keeps the peer, and accepts another invitation', async () => {
    let isRejected = true;
    const site = await withBruges({
      redeem: async (...args) => {
        if (isRejected) throw peeringError('HANSA_INVITATION_REFUSED', 'bruges says no.');
        return redeemAt(lost)(...args);
      },
    });
    await acceptFrom(site, from(site, keysOf(lost)));
    await site.handshake.reconcile(bruges, signal);
    const { state, cause, reason } = await statusAt(site);
    assert.deepEqual([state, cause, reason], ['proposed', 'NeedsInvitation', 'bruges says no.']);
    assert.match(await hintAt(site), /^Ask the operator of bruges\.example for a new invitation/);
    isRejected = false;
    // Nobody said that its keys are lost, so they still count.
    const others = from(site, keysOf(rebuilt), { secret: Buffer.alloc(32, 10) });
    await assert.rejects(reenrolsHere(site.parts, await brugesAt(site), others), {
      code: 'HANSA_INVITATION_REFUSED',
      message: /pins none of the keys that this site knows/,
    });
    await acceptFrom(site, from(site, keysOf(lost), { secret: Buffer.alloc(32, 10) }));
    await site.handshake.reconcile(bruges, signal);
    assert.equal((await statusAt(site)).state, 'enrolled');
  });
});
