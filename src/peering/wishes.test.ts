import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { type FederationPeer, federationPeerKind } from '../api/kinds/federation-peer.ts';
import type { Resource } from '../api/object.ts';
import { spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { personCaller, tokenCaller } from '../core/access/identity.ts';
import type { AuditDraft } from '../core/audit/event.ts';
import { SeededRandom } from '../core/clock/seeded-random.ts';
import { VirtualClock } from '../core/clock/virtual.ts';
import { createSealer } from '../core/store/sealer.ts';
import { openStore } from '../core/store/open.ts';
import type { Store } from '../core/store/store.ts';
import { auditWrites } from '../server/audit-writes.ts';
import { resourceClient } from '../server/resources/resource-client.ts';
import { ResourceWriter, type WriteContext } from '../server/resources/writer.ts';
import type { Acceptor } from './acceptor.ts';
import { Handshake } from './handshake.ts';
import { Inviter } from './inviter.ts';
import { PeerBook } from './peer-book.ts';
import { PeerFederations, type SpiffeFederation } from './peer-federation.ts';
import { Redemptions } from './redemptions.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { wishesCollection, wishesOf } from './wishes.ts';

const lubeck = await testIdentity('lubeck.example');
const bruges = await testIdentity('bruges.example');
const name = 'bruges.example';
const alice = personCaller('alice', '0a');
const ci = tokenCaller('ci');

suite('what an operator asks of a peer', () => {
  let store: Store;
  let writer: ResourceWriter;
  let peers: PeerBook;
  let handshake: Handshake;
  let rows: AuditDraft[];

  beforeEach(async () => {
    const clock = new VirtualClock();
    store = await openStore({ driver: 'memory' }, { clock });
    rows = [];
    const record = (draft: AuditDraft) => {
      rows.push(draft);
      return { encode: () => Buffer.from('{}') };
    };
    const random = new SeededRandom('wishes');
    writer = new ResourceWriter({
      store,
      clock,
      random,
      admit: () => [],
      accompany: (kind, next, live, by) =>
        wishesOf(store, kind, next as Resource | undefined, live as Resource | undefined, by),
      auditRow: auditWrites({ record }),
    });
    const parts = { store, writer, clock };
    peers = new PeerBook(resourceClient<FederationPeer>(federationPeerKind, parts), clock);
    const federations = new PeerFederations(
      resourceClient<SpiffeFederation>(spiffeFederationKind, parts),
      clock,
    );
    const inviter = new Inviter({
      trustDomain: lubeck.trustDomain,
      store,
      clock,
      random,
      audit: { record, deny: () => undefined },
      own: lubeck.authority,
      bundles: { bundleFor: () => undefined },
      peers,
      advertiseURL: () => 'https://lubeck.example:8443',
      ownLeaves: () => [],
      offersFor: () => [],
    });
    handshake = new Handshake({
      store,
      clock,
      sealer: createSealer(Buffer.alloc(32, 1), random),
      peers,
      federations,
      inviter,
      redemptions: new Redemptions(lubeck.trustDomain, store),
      acceptor: {} as Acceptor,
    });
    await inviter.invitations.put('invitation', undefined, {
      digest: '',
      createdAtMs: 0,
      expiresAtMs: clock.now() + 60_000,
      redeemed: {
        trustDomain: name,
        url: 'https://bruges.example:8443',
        bundle: documentOf([bruges]),
        fingerprint: '',
        contractVersion: 1,
        atMs: 0,
      },
    });
    await handshake.admit(name);
    await peers.step(name, 'activate', 'for the test');
    rows.length = 0;
  });

  const context = (caller: WriteContext['caller'], requestId: string): WriteContext => ({
    caller,
    verb: 'patch',
    options: { dryRun: false, manager: 'kubectl', fieldValidation: 'Strict', force: false },
    requestId,
    address: '192.0.2.7',
  });
  const patch = (desiredState: string, caller: WriteContext['caller'], requestId: string) =>
    writer.update(federationPeerKind, name, undefined, context(caller, requestId), (live) => ({
      ...(live as NonNullable<typeof live>),
      spec: { url: 'https://bruges.example:8443/', desiredState },
    }));
  const rowOf = (verb: string): AuditDraft | undefined => rows.find((row) => row.verb === verb);

  test('is suspended in the name of the caller, with the request, when the controller comes to it', async () => {
    await patch('suspended', ci, 'request-1');
    await handshake.distrust(name);
    const row = rowOf('peer.suspend');
    assert.equal(row?.actor.user, 'token:ci');
    assert.equal(row?.actor.via, 'token');
    assert.equal(row?.actor.address, '192.0.2.7');
    assert.equal(row?.requestId, 'request-1');
    assert.equal(row?.reason, 'active → suspended: token:ci suspended it');
    assert.equal((await peers.get(name))?.status?.reason, 'token:ci suspended it');
  });

  test('is told by the row of the request itself', async () => {
    await patch('suspended', ci, 'request-1');
    assert.equal(rowOf('patch')?.reason, 'asks to suspend the peer');
    assert.equal(rowOf('patch')?.requestId, 'request-1');
    await patch('active', ci, 'request-2');
    assert.equal(rows.at(-1)?.reason, 'asks to resume the peer');
  });

  test('is resumed in the name of whoever asked for that, not of whoever suspended it', async () => {
    await patch('suspended', ci, 'request-1');
    await handshake.distrust(name);
    await patch('active', alice, 'request-2');
    await handshake.reconcile(name, new AbortController().signal);
    const row = rowOf('peer.resume');
    assert.equal(row?.actor.user, 'alice');
    assert.equal(row?.requestId, 'request-2');
  });

  test('is revoked in the name of whoever deleted the object', async () => {
    const asked = { dryRun: false, uid: undefined, resourceVersion: undefined };
    await writer.delete(federationPeerKind, name, asked, {
      ...context(alice, 'request-3'),
      verb: 'delete',
    });
    await handshake.distrust(name);
    const row = rowOf('peer.revoke');
    assert.equal(row?.actor.user, 'alice');
    assert.equal(row?.requestId, 'request-3');
    assert.match(row?.reason ?? '', /alice deleted it$/);
    assert.equal(store.get(wishesCollection, name), undefined);
  });

  test('is revoked in the name of whoever called the route', async () => {
    await handshake.revoke(name, { caller: alice, origin: { requestId: 'request-4' } });
    assert.equal(rowOf('peer.revoke')?.actor.user, 'alice');
    assert.equal(rowOf('peer.revoke')?.requestId, 'request-4');
  });

  test('is not changed by a write that asks for nothing', async () => {
    await patch('suspended', ci, 'request-1');
    await writer.update(
      federationPeerKind,
      name,
      undefined,
      context(alice, 'request-5'),
      (live) => ({
        ...(live as NonNullable<typeof live>),
        metadata: { ...live?.metadata, labels: { zone: 'harbour' } },
      }),
    );
    await handshake.distrust(name);
    assert.equal(rowOf('peer.suspend')?.actor.user, 'token:ci');
  });

  test('is the controller’s where nothing tells who asked, as in data of earlier versions', async () => {
    await patch('suspended', ci, 'request-1');
    await store.commit({ delete: [{ collection: wishesCollection, name }] });
    await handshake.distrust(name);
    assert.equal(rowOf('peer.suspend')?.actor.via, 'controller');
    assert.match(rowOf('peer.suspend')?.reason ?? '', /an operator of this site suspended it/);
  });
});
