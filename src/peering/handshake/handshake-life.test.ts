// Tests of the handshake from both sides, and of a peer after it, each with one site without a network.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { withErrorCode } from '../../core/store/conformance/harness.ts';
import type { Acceptor } from './acceptor.ts';
import { peeringError } from '../errors.ts';
import { peerFinalizer } from '../peers/peer-repository.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { testAcceptance, type TestPeerSite, testPeerSite } from './test-peer-site.ts';
import { defaultPeeringSettings } from '../settings.ts';
import { confirmPollMs } from '../timing.ts';

const name = 'bruges.example';
const { signal } = new AbortController();
const operator = {
  caller: { user: 'alice', groups: [], via: 'certificate' },
  origin: {},
} as const;
const document = documentOf([await testIdentity(name)]);

const reconcile = (site: TestPeerSite) => site.handshake.reconcile(name, signal);
const statusOf = async (site: TestPeerSite) => (await site.peers.get(name))?.status;
const stateOf = async (site: TestPeerSite) => (await statusOf(site))?.state;

/** This site has redeemed nothing yet; bruges has redeemed an invitation of it. */
async function redeemed(confirmation?: string): Promise<TestPeerSite> {
  const site = await testPeerSite();
  const waits = confirmation === undefined ? {} : { confirmation };
  await site.redeem(name, {}, { bundle: document, ...waits });
  return site;
}

const answers = (state: 'accepted' | 'pending') => () =>
  Promise.resolve({ state, contractVersion: 1, document });
const refuses = () => Promise.reject(peeringError('HANSA_INVITATION_REFUSED', 'for the test'));
const isAway = () => Promise.reject(peeringError('HANSA_PEER_UNREACHABLE', 'for the test'));

/** This site has accepted an invitation of bruges, which answers so. */
async function invited(redeem: Acceptor['redeem']): Promise<TestPeerSite> {
  const site = await testPeerSite({ redeem });
  await testAcceptance(site, name);
  return site;
}

async function enrolled(): Promise<TestPeerSite> {
  const site = await redeemed();
  await reconcile(site);
  assert.equal(await stateOf(site), 'enrolled');
  return site;
}

const want = (site: TestPeerSite, desiredState: 'active' | 'suspended') =>
  site.peerObjects.patchSpec(name, (peer) => ({ ...peer.spec, desiredState }), {
    controller: 'someone',
  });

suite('a site that redeemed an invitation of this one', () => {
  test('is enrolled, with the bundle that it brought', async () => {
    const site = await enrolled();
    const federation = await site.federations.get(name);
    const { bundleEndpointURL, bundleBootstrap } = federation?.spec.bundleSource.httpsSpiffe ?? {};
    assert.equal(bundleEndpointURL, 'https://bruges.example:8443');
    assert.equal(bundleBootstrap, document);
    assert.equal(federation?.spec.quarantined, false);
    // Agreed in the handshake, before the first heartbeat.
    assert.equal((await statusOf(site))?.contractVersion, 1);
    const verbs = site.rows.map(({ verb }) => verb).filter((verb) => verb.startsWith('peer.'));
    assert.deepEqual(verbs, ['peer.propose', 'peer.accept', 'peer.enroll']);
  });

  test('changes nothing more by being looked at again', async () => {
    const site = await enrolled();
    const { revision } = site.store;
    assert.equal(await reconcile(site), undefined);
    assert.equal(site.store.revision, revision);
  });

  test('waits for the operator where a confirmation is missing, and is not trusted', async () => {
    const site = await redeemed('it was made for no trust domain');
    assert.deepEqual(await reconcile(site), { requeueAfterMs: 60_000 });
    assert.equal(await stateOf(site), 'proposed');
    assert.equal(await site.federations.get(name), undefined);
    await site.inviter.confirm(name, operator);
    await reconcile(site);
    assert.equal(await stateOf(site), 'enrolled');
  });

  test('is revoked where no operator confirms it in time, and cannot be confirmed after', async () => {
    const site = await redeemed('it was made for no trust domain');
    await reconcile(site);
    await site.clock.advance(defaultPeeringSettings.confirmWithinMs - 1000);
    assert.deepEqual(await reconcile(site), { requeueAfterMs: 1000 });
    await site.clock.advance(1000);
    await reconcile(site);
    assert.equal(await stateOf(site), 'revoked');
    assert.match(
      (await statusOf(site))?.reason ?? '',
      /no operator of this site confirmed it in time/,
    );
    await assert.rejects(site.inviter.confirm(name, operator), withErrorCode('HANSA_NOT_FOUND'));
  });

  test('is admitted at once for the answer to its redemption', async () => {
    const site = await redeemed();
    const peer = await site.handshake.admit(name);
    assert.equal(peer?.status?.state, 'enrolled');
    assert.equal(await site.handshake.admit('nobody.example'), undefined);
  });
});

suite('an invitation that this site accepted', () => {
  const recordOf = (site: TestPeerSite) => site.handshake.acceptances.get(name)?.value;

  test('is redeemed with its secret, and the peer enrolled with the bundle that came back', async () => {
    const secrets: Buffer[] = [];
    const site = await invited((_invitation, secret) => {
      secrets.push(Buffer.from(secret));
      return answers('accepted')();
    });
    await reconcile(site);
    assert.deepEqual(secrets, [Buffer.alloc(32, 2)]);
    assert.equal(await stateOf(site), 'enrolled');
    const { httpsSpiffe } = (await site.federations.get(name))?.spec.bundleSource ?? {};
    assert.equal(httpsSpiffe?.bundleBootstrap, document);
    assert.equal((await statusOf(site))?.contractVersion, 1);
    assert.equal(recordOf(site)?.state, 'accepted');
    assert.equal(recordOf(site)?.secret, undefined);
    await reconcile(site);
    assert.equal(secrets.length, 1);
  });

  test('records what the handshake agreed on in the status of the peer', async () => {
    const site = await invited(async () => ({
      ...(await answers('accepted')()),
      capabilities: ['grants', 'teleport'],
      extensionSlugs: ['overlay'],
      endpoints: [{ name: 'federation', url: 'https://bruges.example:8443/' }],
    }));
    await reconcile(site);
    const { capabilities, extensionSlugs, endpoints } = (await statusOf(site)) ?? {};
    assert.deepEqual(capabilities, ['grants']);
    assert.deepEqual(extensionSlugs, ['overlay']);
    assert.deepEqual(endpoints, [{ name: 'federation', url: 'https://bruges.example:8443/' }]);
    const { peerKind, spawnRole } = (await site.peers.get(name))?.spec ?? {};
    assert.deepEqual([peerKind, spawnRole], ['platform', 'symmetric']);
  });

  test('is asked about again while the operator there has not confirmed', async () => {
    let state: 'accepted' | 'pending' = 'pending';
    const site = await invited(() => answers(state)());
    assert.deepEqual(await reconcile(site), { requeueAfterMs: confirmPollMs });
    assert.equal(await stateOf(site), 'proposed');
    // After its end too: it was redeemed in time.
    await site.clock.advance(120_000);
    assert.deepEqual(await reconcile(site), { requeueAfterMs: confirmPollMs });
    state = 'accepted';
    await reconcile(site);
    assert.equal(await stateOf(site), 'enrolled');
  });

  test('is tried again while the other site is away, until it expires', async () => {
    const site = await invited(isAway);
    assert.deepEqual(await reconcile(site), { requeueAfterMs: 1000 });
    assert.equal((await statusOf(site))?.cause, 'Unreachable');
    await site.clock.advance(60_000);
    assert.equal(await reconcile(site), undefined);
    assert.equal(await stateOf(site), 'revoked');
    assert.equal(recordOf(site)?.secret, undefined);
  });

  test('is given up where the other site refuses it, and says why', async () => {
    let calls = 0;
    const site = await invited(() => {
      calls += 1;
      return refuses();
    });
    await reconcile(site);
    await reconcile(site);
    assert.equal(calls, 1);
    assert.equal(await stateOf(site), 'revoked');
    assert.match((await statusOf(site))?.reason ?? '', /for the test/);
    const { state, failure, secret } = recordOf(site) ?? {};
    assert.equal(state, 'revoked');
    assert.equal(failure?.code, 'HANSA_INVITATION_REFUSED');
    assert.equal(secret, undefined);
    assert.equal(await site.federations.get(name), undefined);
  });

  test('that was withdrawn while it waits ends the peer that it proposed', async () => {
    const site = await invited(answers('pending'));
    await reconcile(site);
    const kept = site.handshake.acceptances.get(name);
    assert.ok(kept !== undefined);
    await site.handshake.acceptances.delete(kept);
    await reconcile(site);
    assert.equal(await stateOf(site), 'revoked');
    assert.match((await statusOf(site))?.reason ?? '', /the operator gave up its invitation/);
  });

  test('fails as a whole where the answer is no refusal, and is tried again as it was', async () => {
    let isBroken = true;
    const site = await invited(() =>
      isBroken ? Promise.reject(new TypeError('a bug')) : answers('accepted')(),
    );
    await assert.rejects(reconcile(site), /a bug/);
    assert.equal(recordOf(site)?.state, 'proposed');
    isBroken = false;
    await reconcile(site);
    assert.equal(await stateOf(site), 'enrolled');
  });

  test('makes no peer where another peering has the name', async () => {
    const site = await enrolled();
    const before = await site.peers.get(name);
    await testAcceptance(site, name, { invitation: 'another' });
    await reconcile(site);
    assert.equal(recordOf(site), undefined);
    assert.deepEqual(await site.peers.get(name), before);
  });
});

suite('a peer', () => {
  test('is not trusted while an operator wants it suspended, and is again after', async () => {
    const site = await enrolled();
    await want(site, 'suspended');
    await reconcile(site);
    assert.equal(await stateOf(site), 'suspended');
    assert.equal((await site.federations.get(name))?.spec.quarantined, true);
    await want(site, 'active');
    await reconcile(site);
    assert.equal(await stateOf(site), 'enrolled');
    assert.equal((await site.federations.get(name))?.spec.quarantined, false);
  });

  test('that is to be suspended before it is enrolled is not trusted for a moment', async () => {
    const site = await redeemed('it was made for no trust domain');
    await reconcile(site);
    await want(site, 'suspended');
    await site.inviter.confirm(name, operator);
    const { store } = site;
    const commit = store.commit.bind(store);
    store.commit = async (what) => {
      const committed = await commit(what);
      const federation = await site.federations.get(name);
      assert.notEqual(federation?.spec.quarantined, false);
      return committed;
    };
    await reconcile(site);
    assert.equal(await stateOf(site), 'suspended');
    assert.equal((await site.federations.get(name))?.spec.quarantined, true);
  });

  test('that is revoked is trusted no more, and nothing brings it back', async () => {
    const site = await enrolled();
    await site.handshake.revoke(name, operator);
    assert.equal(await stateOf(site), 'revoked');
    assert.equal(await site.federations.get(name), undefined);
    assert.equal(site.rows.findLast(({ verb }) => verb === 'peer.revoke')?.actor.user, 'alice');
    await want(site, 'active');
    await reconcile(site);
    await site.handshake.admit(name);
    assert.equal(await stateOf(site), 'revoked');
    assert.equal(await site.federations.get(name), undefined);
    await assert.rejects(site.handshake.revoke(name, operator), withErrorCode('HANSA_PEER_STATE'));
  });

  for (const how of ['revoked', 'deleted'] as const) {
    test(`that is ${how} loses its open invitations, and others keep theirs`, async () => {
      const site = await enrolled();
      const { invitations } = site.inviter;
      const issue = (id: string, whom: string | undefined) =>
        invitations.put(id, undefined, {
          digest: '',
          createdAtMs: site.clock.now(),
          expiresAtMs: site.clock.now() + 600_000,
          ...(whom === undefined ? {} : { for: whom }),
        });
      await issue('for-it', name);
      await issue('for-riga', 'riga.example');
      await issue('for-any', undefined);
      await site.clock.advance(5000);
      if (how === 'revoked') await site.handshake.revoke(name, operator);
      else {
        await site.peerObjects.delete(name, { controller: 'someone' });
        await reconcile(site);
      }
      await issue('afterwards', name);
      await reconcile(site);
      const cancelled = invitations.list().filter(({ value }) => value.cancelled !== undefined);
      assert.deepEqual(
        cancelled.map((kept) => kept.name),
        ['for-it'],
      );
    });
  }

  test('that is deleted is revoked first, and then goes with everything that made it', async () => {
    const site = await enrolled();
    await site.peerObjects.delete(name, { controller: 'someone' });
    assert.deepEqual((await site.peers.get(name))?.metadata.finalizers, [peerFinalizer]);
    await reconcile(site);
    assert.equal(await site.peers.get(name), undefined);
    assert.equal(await site.federations.get(name), undefined);
    assert.ok(site.rows.some(({ verb }) => verb === 'peer.revoke'));
    await reconcile(site);
    assert.equal(await site.peers.get(name), undefined);
  });

  test('that went without its finalizer is not made again by the same redemption', async () => {
    const site = await enrolled();
    await site.peers.release(name);
    await site.peerObjects.delete(name, { controller: 'someone' });
    assert.equal(await site.peers.get(name), undefined);
    await reconcile(site);
    assert.equal(await site.peers.get(name), undefined);
    assert.equal(await site.federations.get(name), undefined);
  });

  test('that was only accepted, and not made yet, is given up by a revocation', async () => {
    const site = await invited(answers('accepted'));
    await site.handshake.revoke(name, operator);
    await reconcile(site);
    assert.equal(await site.peers.get(name), undefined);
  });

  test('that does not exist cannot be revoked', async () => {
    const site = await testPeerSite();
    await assert.rejects(site.handshake.revoke(name, operator), withErrorCode('HANSA_NOT_FOUND'));
  });
});

suite('before a site serves', () => {
  test('what was stopped before a crash is not trusted after it', async () => {
    const site = await enrolled();
    await site.peers.step(name, 'revoke', 'and then the site crashed');
    assert.notEqual(await site.federations.get(name), undefined);
    await site.handshake.sweep();
    assert.equal(await site.federations.get(name), undefined);
  });

  test('a wish to suspend is carried out', async () => {
    const site = await enrolled();
    await want(site, 'suspended');
    await site.handshake.sweep();
    assert.equal((await site.federations.get(name))?.spec.quarantined, true);
  });

  test('the federation of a peer that is gone is removed, and those of others stay', async () => {
    const site = await enrolled();
    const spec = {
      bundleSource: { static: { bundle: document } },
      staleAfterSeconds: 3600,
      quarantined: false,
    };
    await site.federations.create({ name: 'other.example', spec }, { controller: 'someone' });
    await site.peers.release(name);
    await site.peerObjects.delete(name, { controller: 'someone' });
    await site.handshake.sweep();
    assert.equal(await site.federations.get(name), undefined);
    assert.notEqual(await site.federations.get('other.example'), undefined);
  });

  test('a live peer stays as it is', async () => {
    const site = await enrolled();
    const { revision } = site.store;
    await site.handshake.sweep();
    assert.equal(site.store.revision, revision);
  });
});

test('what is no trust domain is no peer', async () => {
  const site = await testPeerSite();
  for (const wrong of ['', 'UPPER.example', '../etc', 'a b']) {
    assert.equal(await site.handshake.reconcile(wrong, signal), undefined);
  }
  assert.equal(site.store.revision, 0);
});

test('invitations that expired unused are removed', async () => {
  const site = await testPeerSite();
  await site.inviter.invitations.put('old', undefined, {
    digest: '',
    createdAtMs: 0,
    expiresAtMs: site.clock.now() + 1000,
  });
  await reconcile(site);
  assert.equal(site.inviter.invitations.list().length, 1);
  await site.clock.advance(1000);
  await reconcile(site);
  assert.deepEqual(site.inviter.invitations.list(), []);
});
