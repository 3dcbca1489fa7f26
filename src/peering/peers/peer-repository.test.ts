import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { withErrorCode } from '../../core/store/conformance/harness.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import {
  type NewPeer,
  PeerRepository,
  peerFinalizer,
  peeringWrites,
  positionOf,
} from './peer-repository.ts';
import { type TestPeerSite, testPeerSite } from '../handshake/test-peer-site.ts';

const name = 'bruges.example';
const operator = {
  caller: { user: 'alice', groups: [], via: 'certificate' },
  origin: { requestId: 'request-1' },
} as const;

/** A record of an invitation, which makes one peer. */
class Binding {
  uid: string | undefined;
  isClosed = false;

  readonly bind = async (uid: string): Promise<boolean> => {
    if (this.isClosed) return false;
    this.uid ??= uid;
    return this.uid === uid;
  };
}

function newPeer(binding = new Binding(), more: Partial<NewPeer> = {}): NewPeer {
  return {
    name,
    url: 'https://bruges.example:8443',
    role: 'inviter',
    invitation: 'one',
    replaces: undefined,
    madeUid: binding.uid,
    bind: binding.bind,
    fingerprint: '7f:3a',
    reason: 'for the test',
    ...more,
  };
}

const clientOf = ({ store, writer, clock }: TestPeerSite) =>
  resourceClient<FederationPeer>(federationPeerKind, { store, writer, clock });

async function proposed(): Promise<TestPeerSite> {
  const site = await testPeerSite();
  await site.peers.propose(newPeer());
  return site;
}

async function stateOf({ peers }: TestPeerSite): Promise<string | undefined> {
  return (await peers.get(name))?.status?.state;
}

const verbs = ({ rows }: TestPeerSite): readonly string[] =>
  rows.map(({ verb }) => verb).filter((verb) => verb.startsWith('peer.'));

suite('a peer is proposed', () => {
  test('with a finalizer, the invitation that made it, and a record in the audit log', async () => {
    const site = await testPeerSite();
    const binding = new Binding();
    const peer = await site.peers.propose(newPeer(binding));
    assert.ok(peer !== undefined);
    assert.equal(peer.metadata.uid, binding.uid);
    assert.deepEqual(peer.metadata.finalizers, [peerFinalizer]);
    const { state, role, invitation, fingerprint, reason } = peer.status ?? {};
    assert.deepEqual(
      { state, role, invitation, fingerprint, reason },
      {
        state: 'proposed',
        role: 'inviter',
        invitation: 'one',
        fingerprint: '7f:3a',
        reason: 'for the test',
      },
    );
    assert.deepEqual(verbs(site), ['peer.propose']);
  });

  test('once, however often and by however many', async () => {
    const site = await testPeerSite();
    const binding = new Binding();
    const other = new PeerRepository(clientOf(site), site.clock);
    const found = await Promise.all(
      [site.peers, other, site.peers, other].map((peers) => peers.propose(newPeer(binding))),
    );
    await site.peers.propose(newPeer(binding));
    const uids = new Set(found.map((peer) => peer?.metadata.uid));
    assert.deepEqual([...uids], [binding.uid]);
    assert.deepEqual(verbs(site), ['peer.propose']);
  });

  test('where its object was declared by a manifest', async () => {
    const site = await testPeerSite();
    const spec = { url: 'https://bruges.example:8443', desiredState: 'active' } as const;
    await clientOf(site).create({ name, spec }, { controller: 'someone' });
    const peer = await site.peers.propose(newPeer());
    assert.equal(peer?.status?.state, 'proposed');
    assert.deepEqual(peer.metadata.finalizers, [peerFinalizer]);
  });

  test('by the same record after a crash between its object and its state', async () => {
    const site = await testPeerSite();
    const binding = new Binding();
    const crash = (): Promise<boolean> => Promise.reject(new Error('killed'));
    await assert.rejects(site.peers.propose(newPeer(binding, { bind: crash })), /killed/);
    const left = await site.peers.get(name);
    assert.equal(positionOf(left), undefined);
    const peer = await site.peers.propose(newPeer(binding));
    assert.equal(peer?.metadata.uid, left?.metadata.uid);
    assert.equal(peer?.status?.state, 'proposed');
  });

  test('in the place of the revoked one that its invitation is meant to replace', async () => {
    const site = await proposed();
    await site.peers.step(name, 'revoke', 'for the test');
    await site.peers.release(name);
    const old = await site.peers.get(name);
    const replaces = old?.metadata.uid;
    const peer = await site.peers.propose(newPeer(new Binding(), { invitation: 'two', replaces }));
    assert.equal(peer?.status?.state, 'proposed');
    assert.equal(peer.status.invitation, 'two');
    assert.notEqual(peer.metadata.uid, replaces);
  });
});

suite('a peer is not proposed', () => {
  test('by a record that was closed, and its object gets no state', async () => {
    const site = await testPeerSite();
    const binding = new Binding();
    binding.isClosed = true;
    await site.peers.propose(newPeer(binding));
    assert.equal(await stateOf(site), undefined);
    assert.deepEqual(verbs(site), []);
  });

  test('again by a record whose peer is gone', async () => {
    const site = await testPeerSite();
    const binding = new Binding();
    binding.uid = 'gone';
    assert.equal(await site.peers.propose(newPeer(binding)), undefined);
    assert.equal(await site.peers.get(name), undefined);
  });

  test('over another peer of the name, live or revoked', async () => {
    for (const event of ['accept', 'revoke'] as const) {
      const site = await proposed();
      const before = await site.peers.step(name, event, 'for the test');
      const peer = await site.peers.propose(newPeer(new Binding(), { invitation: 'two' }));
      assert.deepEqual(peer, before);
    }
  });

  test('while the object is being deleted', async () => {
    const site = await testPeerSite();
    const spec = { url: 'https://bruges.example:8443', desiredState: 'active' } as const;
    const client = clientOf(site);
    await client.create({ name, spec, finalizers: ['example.org/hold'] }, { controller: 'x' });
    await client.delete(name, { controller: 'x' });
    await site.peers.propose(newPeer());
    assert.equal(await stateOf(site), undefined);
  });
});

suite('a step', () => {
  test('is taken along the table, with its reason, its time and a record', async () => {
    const site = await proposed();
    await site.clock.advance(5000);
    const peer = await site.peers.step(name, 'accept', 'it was accepted');
    assert.equal(peer?.status?.state, 'accepted');
    assert.equal(peer.status.reason, 'it was accepted');
    assert.equal(Date.parse(peer.status.since ?? ''), Math.floor(site.clock.now() / 1000) * 1000);
    assert.deepEqual(verbs(site), ['peer.propose', 'peer.accept']);
    assert.equal(site.rows.at(-1)?.reason, 'proposed → accepted: it was accepted');
  });

  test('that the table does not have changes nothing', async () => {
    const site = await proposed();
    const before = await site.peers.get(name);
    assert.deepEqual(await site.peers.step(name, 'activate', 'x'), before);
    assert.deepEqual(await site.peers.get(name), before);
  });

  test('of an object that is no peer, or of none, changes nothing', async () => {
    const site = await testPeerSite();
    assert.equal(await site.peers.step(name, 'accept', 'x'), undefined);
    const spec = { url: 'https://bruges.example:8443', desiredState: 'active' } as const;
    await clientOf(site).create({ name, spec }, { controller: 'someone' });
    await site.peers.step(name, 'accept', 'x');
    assert.equal(await stateOf(site), undefined);
  });

  test('is taken once where many try it at once', async () => {
    const site = await proposed();
    const other = new PeerRepository(clientOf(site), site.clock);
    await Promise.all(
      [site.peers, other, site.peers, other].map((peers) => peers.step(name, 'accept', 'x')),
    );
    assert.deepEqual(verbs(site), ['peer.propose', 'peer.accept']);
  });

  test('to revoked wins over every other step of the same moment', async () => {
    for (const event of ['accept', 'suspend', 'enroll'] as const) {
      const site = await proposed();
      if (event !== 'accept') await site.peers.step(name, 'accept', 'x');
      if (event === 'suspend') await site.peers.step(name, 'enroll', 'x');
      const other = new PeerRepository(clientOf(site), site.clock);
      await Promise.all([
        other.step(name, event, 'x'),
        site.peers.step(name, 'revoke', 'x'),
        other.step(name, event, 'x'),
      ]);
      assert.equal(await stateOf(site), 'revoked', event);
    }
  });

  test('back from suspension leads to the state before it', async () => {
    const site = await proposed();
    for (const event of ['accept', 'enroll', 'activate', 'suspend'] as const) {
      await site.peers.step(name, event, 'x');
    }
    assert.deepEqual(positionOf(await site.peers.get(name)), {
      state: 'suspended',
      stateBefore: 'active',
    });
    await site.peers.step(name, 'resume', 'x');
    assert.deepEqual(positionOf(await site.peers.get(name)), { state: 'active' });
  });

  test('that a caller demands is recorded as the step of that caller', async () => {
    const site = await proposed();
    await site.peers.demand(name, 'revoke', 'alice revoked it', operator);
    const row = site.rows.at(-1);
    assert.equal(row?.verb, 'peer.revoke');
    assert.equal(row.actor.user, 'alice');
    assert.equal(row.requestId, 'request-1');
  });

  test('that a caller demands in vain is refused with what is possible', async () => {
    const site = await proposed();
    await assert.rejects(site.peers.demand(name, 'suspend', 'x', operator), (error: unknown) => {
      assert.match(String(error), /Cannot suspend bruges\.example: it is proposed\. Possible now/);
      return withErrorCode('HANSA_PEER_STATE')(error);
    });
    await site.peers.demand(name, 'revoke', 'x', operator);
    await assert.rejects(
      site.peers.demand(name, 'revoke', 'x', operator),
      /it is revoked\. To make it a peer again/,
    );
  });
});

suite('a note', () => {
  test('changes the status without a step or a record', async () => {
    const site = await proposed();
    await site.peers.note(name, (status) => ({ ...status, reason: 'noted' }));
    assert.equal((await site.peers.get(name))?.status?.reason, 'noted');
    assert.deepEqual(verbs(site), ['peer.propose']);
  });

  test('that says what is known writes nothing', async () => {
    const site = await proposed();
    const { revision } = site.store;
    await site.peers.note(name, (status) => ({ ...status }));
    assert.equal(site.store.revision, revision);
  });

  test('is not made of an object that is no peer, nor of none', async () => {
    const site = await testPeerSite();
    const never = () => assert.fail('there is no status to note');
    assert.equal(await site.peers.note(name, never), undefined);
    const spec = { url: 'https://bruges.example:8443', desiredState: 'active' } as const;
    await clientOf(site).create({ name, spec }, { controller: 'someone' });
    await site.peers.note(name, never);
  });

  test('of a contest is for the invitation that made the peer only', async () => {
    const site = await proposed();
    await site.peers.noteContest(name, 'another', 'somebody tried');
    await site.peers.noteContest('none.example', 'one', 'somebody tried');
    assert.equal(await site.peers.dismissContest(name, operator), false);
    await site.peers.noteContest(name, 'one', 'somebody tried');
    assert.equal(await site.peers.dismissContest(name, operator), true);
  });
});

test('a finalizer that was removed by hand is put back, and released once', async () => {
  const site = await proposed();
  await clientOf(site).removeFinalizer(name, peerFinalizer, peeringWrites);
  await site.peers.hold((await site.peers.get(name)) as FederationPeer);
  assert.deepEqual((await site.peers.get(name))?.metadata.finalizers, [peerFinalizer]);
  await site.peers.release(name);
  await site.peers.release(name);
  assert.deepEqual((await site.peers.get(name))?.metadata.finalizers ?? [], []);
});
