// For tests: the handshake of one site with its real store and write path, without a network.

import { approvalKind } from '../../api/kinds/approval.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { type Resource, timestamp } from '../../api/object.ts';
import { Authorizer } from '../../core/access/authorizer.ts';
import { TokenRegister } from '../../core/access/token-register.ts';
import { ApprovalGate } from '../../core/approvals/approval-gate.ts';
import { Approvers } from '../../core/approvals/approvers.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { ResourceClient } from '../../core/reconcile/resource-client.ts';
import { openStore } from '../../core/store/open.ts';
import { createSealer } from '../../core/store/sealing/sealer.ts';
import type { Store } from '../../core/store/store.ts';
import { writeApprovals } from '../../server/approvals/write-approvals.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { peeringActions } from '../approval-actions.ts';
import type { Acceptor } from './acceptor.ts';
import { type SoftSteps, softSteps } from './acceptance.ts';
import { secretPlace } from './acceptances.ts';
import { Handshake, type HandshakeParts } from './handshake.ts';
import { fingerprintOf } from '../../core/identity/bundle/fingerprint.ts';
import { invitationId, secretDigest } from './invitation.ts';
import { Inviter } from './inviter.ts';
import type { OperatorRoutesParts } from '../routes/operator-routes.ts';
import { PeerRepository } from '../peers/peer-repository.ts';
import { PeerFederations, type SpiffeFederation } from '../peers/peer-federation.ts';
import type { AcceptanceRecord, InvitationRecord, Redemption } from './records.ts';
import { Peerings } from './peerings.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { wishesOf } from '../peers/wishes.ts';
import { defaultPeeringSettings } from '../settings.ts';

const sealingKey = Buffer.alloc(32, 1);

export interface TestPeerSite {
  readonly store: Store;
  readonly clock: VirtualClock;
  readonly writer: ResourceWriter;
  readonly peers: PeerRepository;
  readonly federations: ResourceClient<SpiffeFederation>;
  readonly peerObjects: ResourceClient<FederationPeer>;
  readonly inviter: Inviter;
  readonly handshake: Handshake;
  /** The handshake of another replica with the same store. */
  readonly otherHandshake: Handshake;
  /** The dependencies of the operator routes. */
  readonly parts: OperatorRoutesParts;
  /** Records of the audit log. */
  readonly rows: AuditDraft[];
  readonly denials: AuditDraft[];
  /** A site of this name has redeemed an invitation. */
  readonly redeem: (
    name: string,
    more?: Partial<InvitationRecord>,
    redemption?: Partial<Redemption>,
    invitation?: string,
  ) => Promise<void>;
}

export async function testPeerSite(
  answers: Partial<Pick<Acceptor, 'preview' | 'redeem'>> = {},
  soft: Partial<SoftSteps> = {},
  introduced: NonNullable<HandshakeParts['introduced']> = async () => undefined,
  ownLeaves: () => readonly string[] = () => [],
): Promise<TestPeerSite> {
  const nobody = () => Promise.reject(new Error('this test makes no calls'));
  const acceptor = { preview: nobody, redeem: nobody, ...answers } as unknown as Acceptor;
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const rows: AuditDraft[] = [];
  const denials: AuditDraft[] = [];
  const record = (draft: AuditDraft) => ({
    // Called for committed records only.
    encode: () => {
      rows.push(draft);
      return Buffer.from('{}');
    },
  });
  const random = new SeededRandom('peer site');
  const authorizer = new Authorizer({ store, kinds: [federationPeerKind, approvalKind] });
  const audit = { record, deny: (draft: AuditDraft) => void denials.push(draft) };
  const actions = peeringActions;
  const gate = new ApprovalGate({ store, clock, random, audit, authorizer, actions });
  const tokens = new TokenRegister(store, clock);
  const approvers = new Approvers({ clock, authorizer, tokens, gate });
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    admit: () => [],
    accompany: (kind, next, live, ...by) =>
      wishesOf(store, kind, next as Resource | undefined, live as Resource | undefined, ...by),
    approve: writeApprovals({ gate, authorizer, approvers }),
    auditRow: auditWrites({ record }),
  });
  const parts = { store, writer, clock };
  const peerObjects = resourceClient<FederationPeer>(federationPeerKind, parts);
  const peers = new PeerRepository(peerObjects, clock);
  const federations = resourceClient<SpiffeFederation>(spiffeFederationKind, parts);
  const { trustDomain, authority } = await testIdentity('lubeck.example');
  const inviter = new Inviter({
    trustDomain,
    store,
    clock,
    random,
    audit,
    own: authority,
    bundles: { bundleFor: () => undefined },
    peers,
    advertiseURL: () => 'https://lubeck.example:8443',
    ownLeaves,
    confirmMode: () => gate.policy.modeOf('peer.confirm'),
    offersFor: () => [],
  });
  const shared = {
    store,
    clock,
    settings: defaultPeeringSettings,
    sealer: createSealer(sealingKey, random),
    peers,
    federations: new PeerFederations(federations, clock),
    inviter,
    peerings: new Peerings(trustDomain, store),
    acceptor,
    softSteps: { ...softSteps, ...soft },
    introduced,
  };
  const handshake = new Handshake(shared);
  const redeem: TestPeerSite['redeem'] = async (
    name,
    more = {},
    redemption = {},
    invitation = 'invitation',
  ) =>
    inviter.invitations.put(invitation, undefined, {
      digest: '',
      createdAtMs: 0,
      expiresAtMs: clock.now() + 60_000,
      redeemed: {
        state: redemption.confirmation === undefined ? 'accepted' : 'proposed',
        trustDomain: name,
        url: `https://${name}:8443`,
        bundle: documentOf([await testIdentity(name)]),
        fingerprint: '',
        contractVersion: 1,
        atMs: clock.now(),
        ...redemption,
      },
      ...more,
    });
  return {
    store,
    clock,
    writer,
    peers,
    federations,
    peerObjects,
    inviter,
    handshake,
    otherHandshake: new Handshake(shared),
    parts: {
      ...shared,
      trustDomain,
      own: authority,
      audit,
      handshake,
      approvals: gate,
    },
    rows,
    denials,
    redeem,
  };
}

/** What a site says that invites without a confirmation and has granted db. */
export const testPreview: Acceptor['preview'] = async ({
  secret,
  trustDomain,
  url,
  keys,
  ...more
}) => ({
  invitation: invitationId(secretDigest(secret)),
  trustDomain: trustDomain.name,
  url: url.href,
  fingerprint: fingerprintOf(keys),
  expiresAt: timestamp(more.expiresAtMs),
  contractVersion: 1,
  offers: ['db'],
  confirmation: false,
});

/** An operator accepted an invitation of the named site, which is valid for a minute. */
export async function testAcceptance(
  { handshake, clock }: TestPeerSite,
  name: string,
  more: Partial<AcceptanceRecord> = {},
): Promise<void> {
  const invitation = more.invitation ?? 'invitation';
  const sealer = createSealer(sealingKey, new SeededRandom('seal'));
  const secret = await sealer.seal(secretPlace(name, invitation), Buffer.alloc(32, 2));
  await handshake.acceptances.put(name, undefined, {
    invitation,
    url: `https://${name}:8443`,
    keys: ['ab'.repeat(32)],
    expiresAtMs: clock.now() + 60_000,
    atMs: clock.now(),
    state: 'proposed',
    secret: secret.toString('base64'),
    ...more,
  });
}
