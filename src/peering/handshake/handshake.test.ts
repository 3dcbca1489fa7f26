import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import type { Acceptor } from './acceptor.ts';
import { contestCondition, peeringWrites } from '../peers/peer-repository.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { testAcceptance, type TestPeerSite, testPeerSite } from './test-peer-site.ts';
import { peeringError } from '../errors.ts';

const name = 'bruges.example';
const { signal } = new AbortController();

suite('what keeps a peer from going on', () => {
  test('is a SPIFFEFederation of its name that is not its own, until that is deleted', async () => {
    const { peers, federations, handshake, redeem } = await testPeerSite();
    const bundle = documentOf([await testIdentity(name)]);
    const spec = {
      bundleSource: { static: { bundle } },
      staleAfterSeconds: 3600,
      quarantined: false,
    };
    await federations.create({ name, spec }, { controller: 'someone' });
    await redeem(name);
    await handshake.reconcile(name, signal);
    const { status } = (await peers.get(name)) ?? {};
    assert.equal(status?.state, 'accepted');
    assert.equal(status.cause, 'ForeignFederation');
    await federations.delete(name, peeringWrites);
    await handshake.reconcile(name, signal);
    const after = (await peers.get(name))?.status;
    assert.equal(after?.state, 'enrolled');
    assert.equal(after.cause, undefined);
  });

  test('is the SPIFFEFederation of an earlier peer, while finalizers keep it from being deleted', async () => {
    const { peers, federations, handshake, redeem } = await testPeerSite();
    const bundle = documentOf([await testIdentity(name)]);
    const spec = {
      bundleSource: { static: { bundle } },
      staleAfterSeconds: 3600,
      quarantined: false,
    };
    const [labels, hold] = [{ 'hansa.dev/peer': name }, 'example.org/hold'];
    await federations.create({ name, spec, labels, finalizers: [hold] }, peeringWrites);
    await federations.delete(name, peeringWrites);
    await redeem(name);
    await handshake.reconcile(name, signal);
    const { status } = (await peers.get(name)) ?? {};
    assert.equal(status?.state, 'accepted');
    assert.match(status.reason ?? '', /finalizers block the deletion .*: example\.org\/hold/);
    await federations.removeFinalizer(name, hold, peeringWrites);
    await handshake.reconcile(name, signal);
    assert.equal((await peers.get(name))?.status?.state, 'enrolled');
    assert.notEqual(await federations.get(name), undefined);
  });

  suite('where this site was invited', () => {
    /** Accepted an invitation of bruges, which answers so. */
    async function invited(redeem: Acceptor['redeem']): Promise<TestPeerSite> {
      const site = await testPeerSite({ redeem });
      await testAcceptance(site, name);
      await site.handshake.reconcile(name, signal);
      return site;
    }

    test('is the operator of the other site, also after it was silent for a while', async () => {
      let isSilent = false;
      const site = await invited(() =>
        isSilent
          ? Promise.reject(peeringError('HANSA_PEER_UNREACHABLE', 'for the test'))
          : Promise.resolve({
              state: 'pending',
              contractVersion: 1,
              document: '{}',
            }),
      );
      const cause = async (): Promise<string | undefined> =>
        (await site.peers.get(name))?.status?.cause;
      assert.equal(await cause(), 'WaitsForPeer');
      for (const silent of [true, false]) {
        isSilent = silent;
        await site.handshake.reconcile(name, signal);
        assert.equal(await cause(), silent ? 'Unreachable' : 'WaitsForPeer');
      }
    });

    test('is a site that shows other keys than the invitation names', async () => {
      const site = await invited(() =>
        Promise.reject(new HansaError('HANSA_PEER_UNTRUSTED', 'for the test')),
      );
      const { status } = (await site.peers.get(name)) ?? {};
      assert.equal(status?.state, 'proposed');
      assert.equal(status.cause, 'Untrusted');
    });
  });
});

suite('an alert about a contested invitation', () => {
  const contested = {
    trustDomain: name,
    fingerprint: '7f:3a',
    address: '192.0.2.9',
    atMs: 0,
  };

  test('is a condition of the peer that the invitation made', async () => {
    const { peers, handshake, redeem } = await testPeerSite();
    await redeem(name, { contested });
    await handshake.reconcile(name, signal);
    const condition = (await peers.get(name))?.status?.conditions?.find(
      ({ type }) => type === contestCondition,
    );
    assert.equal(condition?.status, 'True');
    assert.match(condition.message, /fingerprint 7f:3a tried to redeem the same .*192\.0\.2\.9/);
  });

  test('is ended by an operator, with a record, and not raised again', async () => {
    const { peers, handshake, redeem, rows } = await testPeerSite();
    await redeem(name, { contested });
    await handshake.reconcile(name, signal);
    const caller = { user: 'alice', groups: [], via: 'certificate' } as const;
    const by = { caller, origin: { requestId: 'request-1' } };
    assert.equal(await peers.dismissContest(name, by), true);
    await handshake.reconcile(name, signal);
    const conditions = (await peers.get(name))?.status?.conditions;
    assert.equal(conditions?.find(({ type }) => type === contestCondition)?.status, 'False');
    const row = rows.find(({ verb }) => verb === 'peer.confirm');
    assert.equal(row?.actor.user, 'alice');
    assert.equal(row.requestId, 'request-1');
    assert.equal(await peers.dismissContest(name, by), false);
  });
});
