// A site that is updated in the middle of a handshake finishes it. The records here have the form that
// the version before wrote.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { peeringError } from '../errors.ts';
import { acceptancesCollection, invitationsCollection } from './records.ts';
import { secretPlace } from './acceptances.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { type TestPeerSite, testPeerSite } from './test-peer-site.ts';

const name = 'bruges.example';
const { signal } = new AbortController();
const document = documentOf([await testIdentity(name)]);
const as = { controller: 'peering' };
const operator = {
  caller: { user: 'alice', groups: [], via: 'certificate' },
  origin: {},
} as const;

const stateOf = async (site: TestPeerSite) => (await site.peers.get(name))?.status?.state;
const reconcile = (site: TestPeerSite) => site.handshake.reconcile(name, signal);

async function write(site: TestPeerSite, collection: string, key: string, value: object) {
  const bytes = Buffer.from(JSON.stringify(value));
  await site.store.commit({ put: [{ collection, name: key, encode: () => bytes }] });
}

/** A peer as the version before stored it. */
async function peerIn(
  site: TestPeerSite,
  status: NonNullable<FederationPeer['status']>,
): Promise<string> {
  const spec = { url: `https://${name}:8443`, desiredState: 'active' as const };
  const { metadata } = await site.peerObjects.create({ name, spec }, as);
  await site.peerObjects.patchStatus(name, () => status, as);
  return metadata.uid;
}

async function acceptance(
  step: 'redeeming' | 'pending' | 'done' | 'refused',
  redeem: 'accepts' | 'refuses' = 'accepts',
  more: object = {},
): Promise<TestPeerSite> {
  const site = await testPeerSite({
    redeem: () =>
      redeem === 'accepts'
        ? Promise.resolve({ state: 'accepted', contractVersion: 1, document })
        : Promise.reject(peeringError('HANSA_INVITATION_REFUSED', 'for the test')),
  });
  const sealed = await site.parts.sealer.seal(secretPlace(name, 'i1'), Buffer.alloc(32, 2));
  const hasSecret = step === 'redeeming' || step === 'pending';
  await write(site, acceptancesCollection, name, {
    invitation: 'i1',
    url: `https://${name}:8443`,
    keys: ['ab'.repeat(32)],
    expiresAtMs: site.clock.now() + 60_000,
    startedAtMs: site.clock.now(),
    step,
    ...(hasSecret ? { secret: sealed.toString('base64') } : {}),
    ...(step === 'done' ? { bundle: document, contractVersion: 1 } : {}),
    ...(step === 'refused' ? { failure: { code: 'HANSA_X', message: 'it said no' } } : {}),
    ...more,
  });
  return site;
}

async function redemption(more: object): Promise<TestPeerSite> {
  const site = await testPeerSite();
  await write(site, invitationsCollection, 'i1', {
    digest: 'ab',
    createdAtMs: 0,
    expiresAtMs: site.clock.now() + 60_000,
    redeemed: {
      trustDomain: name,
      url: `https://${name}:8443`,
      bundle: document,
      fingerprint: '',
      contractVersion: 1,
      atMs: site.clock.now(),
      ...more,
    },
  });
  return site;
}

suite('an acceptance of the version before', () => {
  for (const step of ['redeeming', 'pending', 'done'] as const) {
    test(`that was ${step} is finished, with and without its peer`, async () => {
      for (const hasPeer of [true, false]) {
        // A finished acceptance without a uid and without a peer is left over from an ended peering.
        if (step === 'done' && !hasPeer) continue;
        const site = await acceptance(step);
        if (hasPeer) await peerIn(site, { state: 'proposed', role: 'acceptor', invitation: 'i1' });
        await reconcile(site);
        assert.equal(await stateOf(site), 'enrolled');
        assert.equal(site.handshake.acceptances.get(name)?.value.state, 'accepted');
        assert.equal(site.handshake.acceptances.get(name)?.value.secret, undefined);
        assert.notEqual(await site.federations.get(name), undefined);
      }
    });
  }

  test('that waited for the other operator keeps its later deadline', async () => {
    const site = await acceptance('pending');
    await site.clock.advance(120_000);
    await reconcile(site);
    assert.equal(await stateOf(site), 'enrolled');
  });

  test('that was refused, or is refused now, ends its peer', async () => {
    for (const site of [await acceptance('refused'), await acceptance('redeeming', 'refuses')]) {
      await peerIn(site, { state: 'proposed', role: 'acceptor', invitation: 'i1' });
      await reconcile(site);
      assert.equal(await stateOf(site), 'revoked');
      assert.equal(await site.federations.get(name), undefined);
    }
  });

  test('that was done does not change an active peer', async () => {
    const site = await acceptance('done');
    await peerIn(site, { state: 'active', role: 'acceptor', invitation: 'i1' });
    await reconcile(site);
    assert.equal(await stateOf(site), 'active');
  });
});

suite('a redemption of the version before', () => {
  test('is finished, where no confirmation was needed or it was given', async () => {
    for (const more of [{}, { confirmation: 'it was a peer', confirmed: true }]) {
      const site = await redemption(more);
      await reconcile(site);
      assert.equal(await stateOf(site), 'enrolled');
    }
  });

  test('that waits for confirmation goes on waiting, and is finished when confirmed', async () => {
    const site = await redemption({ confirmation: 'it was a peer' });
    await peerIn(site, { state: 'proposed', role: 'inviter', invitation: 'i1' });
    await reconcile(site);
    assert.equal(await stateOf(site), 'proposed');
    await site.inviter.confirm(name, operator);
    await reconcile(site);
    assert.equal(await stateOf(site), 'enrolled');
  });

  test('that is over makes no peer, and ends the one that it made', async () => {
    const without = await redemption({ over: true });
    await reconcile(without);
    assert.equal(await without.peers.get(name), undefined);
    const site = await redemption({});
    const uid = await peerIn(site, { state: 'accepted', role: 'inviter', invitation: 'i1' });
    const { value } = site.inviter.invitations.get('i1') ?? {};
    const { state: _new, ...redeemed } = value?.redeemed ?? {};
    const over = { ...redeemed, madeUid: uid, over: true };
    await write(site, invitationsCollection, 'i1', { ...value, redeemed: over });
    await reconcile(site);
    assert.equal(await stateOf(site), 'revoked');
    assert.equal(await site.federations.get(name), undefined);
  });
});
