// Interrupts the handshake at every write and restarts it, and runs it on two replicas at once. There is
// always one peer, every step happens once, and a stopped peer is not trusted.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { peeringError } from '../errors.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { testAcceptance, type TestPeerSite, testPeerSite } from './test-peer-site.ts';
import {
  brugesAt,
  printOf,
  rebuilt,
  redeemAgain,
  reenrol,
  withBruges,
} from './test-reenrolment.ts';

const name = 'bruges.example';
const { signal } = new AbortController();
const operator = {
  caller: { user: 'alice', groups: [], via: 'certificate' },
  origin: {},
} as const;
const document = documentOf([await testIdentity(name)]);

const stateOf = async (site: TestPeerSite) => (await site.peers.get(name))?.status?.state;
const isTrusted = async (site: TestPeerSite): Promise<boolean> =>
  (await site.federations.get(name))?.spec.quarantined === false;
const stepsOf = ({ rows }: TestPeerSite): readonly string[] =>
  rows.map(({ verb }) => verb).filter((verb) => verb.startsWith('peer.'));

async function redeemed(): Promise<TestPeerSite> {
  const site = await testPeerSite();
  await site.redeem(name);
  return site;
}

async function invited(): Promise<TestPeerSite> {
  const site = await testPeerSite({
    redeem: () => Promise.resolve({ state: 'accepted', contractVersion: 1, document }),
  });
  await testAcceptance(site, name);
  return site;
}

async function enrolled(): Promise<TestPeerSite> {
  const site = await redeemed();
  await site.handshake.reconcile(name, signal);
  return site;
}

/** Makes one commit fail: `before` it is written, or `after`, as if the process had died there. */
function cutOffAt(site: TestPeerSite, at: number, when: 'before' | 'after'): () => boolean {
  const { store } = site;
  const commit = store.commit.bind(store);
  let count = 0;
  store.commit = async (what) => {
    const isIt = count++ === at;
    if (isIt && when === 'before') throw new Error('cut off');
    const committed = await commit(what);
    if (isIt) throw new Error('cut off');
    return committed;
  };
  return () => count > at;
}

/** Does `work` once for each of its writes, cut off there, and then lets the site start again. */
async function cutOffAnywhere(
  begin: () => Promise<TestPeerSite>,
  work: (site: TestPeerSite) => Promise<unknown>,
  check: (site: TestPeerSite, where: string) => Promise<void>,
): Promise<void> {
  for (const when of ['before', 'after'] as const) {
    for (let at = 0; ; at++) {
      const site = await begin();
      const wasCut = cutOffAt(site, at, when);
      await work(site).catch((error: unknown) => assert.match(String(error), /cut off/));
      await site.otherHandshake.sweep();
      for (let round = 0; round < 3; round++) await site.otherHandshake.reconcile(name, signal);
      await check(site, `${when} write ${at}`);
      if (!wasCut()) {
        assert.ok(at > 1, 'there was something to cut off');
        break;
      }
    }
  }
}

suite('a handshake that is cut off at any write', () => {
  const enrolment = ['peer.propose', 'peer.accept', 'peer.enroll'];
  /** Every step has its outcome, and the audit log has one record of the acceptance. */
  const isComplete = async (site: TestPeerSite, where: string, times = 1): Promise<void> => {
    const { steps = [], completedAt } = (await site.peers.get(name))?.status?.acceptance ?? {};
    assert.deepEqual(
      steps.map(({ step, outcome }) => `${step} ${outcome}`),
      [
        'contract done',
        'invitation done',
        'accept done',
        'enrol done',
        'grants skipped',
        'attach skipped',
        'governance skipped',
      ],
      where,
    );
    assert.ok(completedAt !== undefined, where);
    const accepted = site.rows.filter(({ verb }) => verb === 'federation.peer.accepted');
    assert.equal(accepted.length, times, where);
  };

  test('enrolls the site that redeemed, once', () =>
    cutOffAnywhere(
      redeemed,
      (site) => site.handshake.reconcile(name, signal),
      async (site, where) => {
        assert.equal(await stateOf(site), 'enrolled', where);
        assert.ok(await isTrusted(site), where);
        assert.deepEqual(stepsOf(site), enrolment, where);
        await isComplete(site, where);
      },
    ));

  test('enrolls the site whose invitation was accepted, once', () =>
    cutOffAnywhere(
      invited,
      (site) => site.handshake.reconcile(name, signal),
      async (site, where) => {
        assert.equal(await stateOf(site), 'enrolled', where);
        assert.ok(await isTrusted(site), where);
        assert.deepEqual(stepsOf(site), enrolment, where);
        await isComplete(site, where);
        assert.equal(site.handshake.acceptances.get(name)?.value.secret, undefined, where);
      },
    ));

  test('gives up a peer whose site refused, also where that was not written everywhere', () =>
    cutOffAnywhere(
      async () => {
        const error = peeringError('HANSA_INVITATION_REFUSED', 'for the test');
        const site = await testPeerSite({ redeem: () => Promise.reject(error) });
        await testAcceptance(site, name);
        return site;
      },
      (site) => site.handshake.reconcile(name, signal),
      async (site, where) => {
        assert.equal(await stateOf(site), 'revoked', where);
        assert.equal(site.handshake.acceptances.get(name)?.value.secret, undefined, where);
      },
    ));

  test('trusts no peer that was revoked', () =>
    cutOffAnywhere(
      enrolled,
      async (site) => {
        // The operator sees the error and tries again.
        await site.handshake.revoke(name, operator).catch(() => undefined);
        if ((await stateOf(site)) !== 'revoked') await site.handshake.revoke(name, operator);
        throw new Error('cut off');
      },
      async (site, where) => {
        assert.equal(await stateOf(site), 'revoked', where);
        assert.equal(await site.federations.get(name), undefined, where);
        const revocations = stepsOf(site).filter((verb) => verb === 'peer.revoke');
        assert.equal(revocations.length, 1, where);
      },
    ));

  test('lets a peer that re-enrols keep its object, and trusts only its new keys', async () => {
    let uid = '';
    const begin = async () => {
      const site = await withBruges();
      ({ uid } = (await brugesAt(site)).metadata);
      return site;
    };
    await cutOffAnywhere(
      begin,
      async (site) => {
        // The operator sees the error and tries again, and so does the peer.
        const made = await reenrol(site, { forKeys: printOf(rebuilt) }).catch(() =>
          reenrol(site, { forKeys: printOf(rebuilt) }),
        );
        await redeemAgain(site, made).catch(() => redeemAgain(site, made));
        throw new Error('cut off');
      },
      async (site, where) => {
        assert.equal(await stateOf(site), 'enrolled', where);
        assert.ok(await isTrusted(site), where);
        assert.equal((await brugesAt(site)).metadata.uid, uid, where);
        const { httpsSpiffe } = (await site.federations.get(name))?.spec.bundleSource ?? {};
        assert.equal(httpsSpiffe?.bundleBootstrap, documentOf([rebuilt]), where);
        await isComplete(site, where, 2);
      },
    );
  });

  test('does not trust the lost keys after a crash, although nobody continues', () =>
    cutOffAnywhere(
      withBruges,
      (site) => reenrol(site),
      async (site, where) => {
        const { state, reenrolments } = (await brugesAt(site)).status ?? {};
        // Either nothing has happened, or all of it.
        const isBegun = reenrolments === 1;
        assert.equal(state, isBegun ? 'proposed' : 'active', where);
        assert.equal(await isTrusted(site), !isBegun, where);
        assert.equal(site.inviter.invitations.list().length, isBegun ? 2 : 1, where);
      },
    ));

  test('leaves nothing of a peer that was deleted', () =>
    cutOffAnywhere(
      async () => {
        const site = await enrolled();
        await site.peerObjects.delete(name, { controller: 'someone' });
        return site;
      },
      (site) => site.handshake.reconcile(name, signal),
      async (site, where) => {
        assert.equal(await site.peers.get(name), undefined, where);
        assert.equal(await site.federations.get(name), undefined, where);
      },
    ));
});

suite('two replicas at once', () => {
  const both = (site: TestPeerSite) =>
    Promise.allSettled([
      site.handshake.reconcile(name, signal),
      site.otherHandshake.reconcile(name, signal),
    ]);

  test('make one peer of a redemption, and one of an acceptance', async () => {
    for (const begin of [redeemed, invited]) {
      const site = await begin();
      await both(site);
      await both(site);
      assert.equal(await stateOf(site), 'enrolled');
      assert.deepEqual(stepsOf(site), ['peer.propose', 'peer.accept', 'peer.enroll']);
      const accepted = site.rows.filter(({ verb }) => verb === 'federation.peer.accepted');
      assert.equal(accepted.length, 1);
    }
  });

  test('trust no peer that one of them revokes as the other is about to trust it', async () => {
    // New, and one whose federation was deleted by hand.
    for (const site of [await redeemed(), await enrolled()]) {
      await site.federations.delete(name, { controller: 'someone' }).catch(() => undefined);
      const { store } = site;
      const commit = store.commit.bind(store);
      let isRevoked = false;
      store.commit = async (what) => {
        const trusts = what.put?.some(({ collection }) => collection === 'spiffefederations');
        if (trusts === true && !isRevoked) {
          isRevoked = true;
          await site.otherHandshake.revoke(name, operator);
        }
        return commit(what);
      };
      await site.handshake.reconcile(name, signal);
      assert.ok(isRevoked);
      assert.equal(await stateOf(site), 'revoked');
      assert.equal(await site.federations.get(name), undefined);
    }
  });

  test('trust no peer that one of them revokes while the other enrolls it', async () => {
    for (const begin of [redeemed, invited]) {
      const site = await begin();
      const enrolling = site.otherHandshake.reconcile(name, signal);
      const revoking = site.handshake.revoke(name, operator);
      const [, revoked] = await Promise.allSettled([enrolling, revoking]);
      // It came before there was a peer, and the operator was told so.
      if (revoked.status === 'rejected') await site.handshake.revoke(name, operator);
      await both(site);
      // An acceptance that was given up before it made the peer leaves an object without a state.
      assert.ok([undefined, 'revoked'].includes(await stateOf(site)), await stateOf(site));
      assert.equal(await site.federations.get(name), undefined);
    }
  });
});
