// For tests only: the handshake of one site on its real store and write path, without a network.

import { type FederationPeer, federationPeerKind } from '../api/kinds/federation-peer.ts';
import { spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import type { Resource } from '../api/object.ts';
import type { AuditDraft } from '../core/audit/event.ts';
import { SeededRandom } from '../core/clock/seeded-random.ts';
import { VirtualClock } from '../core/clock/virtual.ts';
import type { ResourceClient } from '../core/reconcile/resource-client.ts';
import { openStore } from '../core/store/open.ts';
import { createSealer } from '../core/store/sealer.ts';
import type { Store } from '../core/store/store.ts';
import { auditWrites } from '../server/audit-writes.ts';
import { resourceClient } from '../server/resources/resource-client.ts';
import { ResourceWriter } from '../server/resources/writer.ts';
import type { Acceptor } from './acceptor.ts';
import { Handshake } from './handshake.ts';
import { Inviter } from './inviter.ts';
import { PeerBook } from './peer-book.ts';
import { PeerFederations, type SpiffeFederation } from './peer-federation.ts';
import type { InvitationRecord } from './records.ts';
import { Redemptions } from './redemptions.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { wishesOf } from './wishes.ts';

export interface TestPeerSite {
  readonly store: Store;
  readonly clock: VirtualClock;
  readonly writer: ResourceWriter;
  readonly peers: PeerBook;
  readonly federations: ResourceClient<SpiffeFederation>;
  readonly handshake: Handshake;
  /** Of the audit log, denials left out. */
  readonly rows: AuditDraft[];
  /** A site of this name has redeemed an invitation. */
  readonly redeem: (name: string, more?: Partial<InvitationRecord>) => Promise<void>;
}

export async function testPeerSite(
  acceptor: Pick<Acceptor, 'redeem'> = {
    redeem: () => Promise.reject(new Error('nobody is called here')),
  },
): Promise<TestPeerSite> {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const rows: AuditDraft[] = [];
  const record = (draft: AuditDraft) => ({
    // Called for what is committed, and not for what was overtaken.
    encode: () => {
      rows.push(draft);
      return Buffer.from('{}');
    },
  });
  const random = new SeededRandom('peer site');
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    admit: () => [],
    accompany: (kind, next, live, by) =>
      wishesOf(store, kind, next as Resource | undefined, live as Resource | undefined, by),
    auditRow: auditWrites({ record }),
  });
  const parts = { store, writer, clock };
  const peers = new PeerBook(resourceClient<FederationPeer>(federationPeerKind, parts), clock);
  const federations = resourceClient<SpiffeFederation>(spiffeFederationKind, parts);
  const { trustDomain, authority } = await testIdentity('lubeck.example');
  const inviter = new Inviter({
    trustDomain,
    store,
    clock,
    random,
    audit: { record, deny: () => undefined },
    own: authority,
    bundles: { bundleFor: () => undefined },
    peers,
    advertiseURL: () => 'https://lubeck.example:8443',
    ownLeaves: () => [],
    offersFor: () => [],
  });
  const handshake = new Handshake({
    store,
    clock,
    sealer: createSealer(Buffer.alloc(32, 1), random),
    peers,
    federations: new PeerFederations(federations, clock),
    inviter,
    redemptions: new Redemptions(trustDomain, store),
    acceptor: acceptor as Acceptor,
  });
  const redeem: TestPeerSite['redeem'] = async (name, more = {}) =>
    inviter.invitations.put('invitation', undefined, {
      digest: '',
      createdAtMs: 0,
      expiresAtMs: clock.now() + 60_000,
      redeemed: {
        trustDomain: name,
        url: `https://${name}:8443`,
        bundle: documentOf([await testIdentity(name)]),
        fingerprint: '',
        contractVersion: 1,
        atMs: clock.now(),
      },
      ...more,
    });
  return { store, clock, writer, peers, federations, handshake, rows, redeem };
}
