import assert from 'node:assert/strict';
import { before, beforeEach, suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { socketOwner } from '../../core/access/identity.ts';
import type { ApprovalMode } from '../../core/approvals/policy.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { acceptanceFor, pins, stands } from './crossing.ts';
import { keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { parseInvitation } from './invitation.ts';
import { Inviter } from './inviter.ts';
import { type AcceptanceRecord, acceptanceRecords, type Records } from './records.ts';
import { Peerings } from './peerings.ts';
import { documentOf, type TestIdentity, testIdentity } from './test-handshake.ts';

suite('crossing invitations', () => {
  let lubeck: TestIdentity;
  let bruges: TestIdentity;
  let novgorod: TestIdentity;
  let falseNovgorod: TestIdentity;
  const random = new SeededRandom('crossing');
  let store: Store;
  let clock: VirtualClock;
  let acceptances: Records<AcceptanceRecord>;
  let peer: FederationPeer | undefined;
  let confirmMode: ApprovalMode;

  before(async () => {
    lubeck = await testIdentity('lubeck.example');
    bruges = await testIdentity('bruges.example');
    novgorod = await testIdentity('novgorod.example');
    falseNovgorod = await testIdentity('novgorod.example', 'mallory');
  });

  beforeEach(async () => {
    clock = new VirtualClock();
    store = await openStore({ driver: 'memory' }, { clock });
    acceptances = acceptanceRecords(store);
    peer = undefined;
    confirmMode = 'approver';
  });

  const keysOf = ({ authority }: TestIdentity) =>
    keyDigests(authority.bundle).map((key) => key.toString('hex'));
  /** This site, lubeck, is accepting an invitation of `other`. */
  const accepting = async (
    other: TestIdentity,
    state: 'proposed' | 'active' = 'proposed',
    recordState: AcceptanceRecord['state'] = 'proposed',
    more: Partial<AcceptanceRecord> = { consent: 'approver' },
  ): Promise<void> => {
    const { name } = other.trustDomain;
    const invitation = 'accepted';
    await acceptances.put(name, undefined, {
      invitation,
      url: `https://${name}:8443`,
      keys: keysOf(other),
      expiresAtMs: clock.now() + 1000,
      atMs: clock.now(),
      state: recordState,
      ...more,
    });
    const status = { state, role: 'acceptor', invitation } as const;
    peer = { metadata: { name, uid: 'uid' }, status } as FederationPeer;
  };
  /** `other` redeems an invitation of lubeck. */
  const redeem = async (
    other: TestIdentity,
    forWhom?: string,
    document: string = documentOf([other]),
  ) => {
    const inviter = new Inviter({
      trustDomain: lubeck.trustDomain,
      store,
      clock,
      random,
      audit: { record: () => ({ encode: () => Buffer.from('{}') }), deny: () => undefined },
      own: lubeck.authority,
      bundles: { bundleFor: () => undefined },
      peers: { get: async () => peer },
      advertiseURL: () => 'https://lubeck.example:8443',
      ownLeaves: () => [],
      confirmMode: () => confirmMode,
      offersFor: () => [],
    });
    const { invitation: line } = await inviter.invite(
      { caller: socketOwner, origin: {} },
      forWhom === undefined ? {} : { for: TrustDomain.parse(forWhom) },
    );
    const request = {
      contractVersions: [1],
      secret: parseInvitation(line, clock.now()).secret,
      trustDomain: other.trustDomain,
      url: new URL(`https://${other.trustDomain.name}:8443`),
      bundle: document,
    };
    const id = await inviter.redeem(request, { chain: other.chain, address: '192.0.2.1' });
    const peerings = new Peerings(lubeck.trustDomain, store);
    return { id, peerings, redeemed: inviter.invitations.get(id)?.value.redeemed };
  };

  test('stand at both sites alike: one of the two, never both', () => {
    const names = ['a.example', 'b.example', 'a.example.org', 'z'];
    for (const one of names) {
      for (const other of names) {
        if (one === other) continue;
        const here = stands(TrustDomain.parse(one), other);
        assert.notEqual(here, stands(TrustDomain.parse(other), one), `${one}, ${other}`);
      }
    }
  });

  test('a redemption takes the place of an acceptance under way, and needs no confirmation', async () => {
    await accepting(novgorod);
    for (const forWhom of [undefined, 'novgorod.example']) {
      const { peerings, redeemed } = await redeem(novgorod, forWhom);
      assert.ok(redeemed !== undefined);
      assert.equal(redeemed.confirmation, undefined);
      assert.equal(peerings.crossing(peer, redeemed), 'accepted');
    }
  });

  test('an acceptance confirms nobody where a confirmation needs more consent', async () => {
    const cases = [
      [{ consent: 'approver' }, 'two-person'],
      [{ consent: 'none' }, 'approver'],
      // Of an earlier version.
      [{}, 'approver'],
      [{ consent: 'two-person', approval: 'uid' }, 'two-person'],
      [{ consent: 'approver' }, 'none'],
    ] as const;
    const found: unknown[] = [];
    for (const [record, mode] of cases) {
      store = await openStore({ driver: 'memory' }, { clock });
      acceptances = acceptanceRecords(store);
      confirmMode = mode;
      await accepting(novgorod, 'proposed', 'proposed', record);
      const { redeemed } = await redeem(novgorod);
      found.push([redeemed?.state, redeemed?.confirmation, redeemed?.approval]);
    }
    const waits = ['proposed', 'the invitation was for any trust domain', undefined];
    assert.deepEqual(found, [
      waits,
      waits,
      waits,
      ['accepted', undefined, 'uid'],
      ['accepted', undefined, undefined],
    ]);
  });

  test('a redemption waits where the invitation of the other site stands, and may be tried again', async () => {
    await accepting(bruges);
    await assert.rejects(redeem(bruges), {
      code: 'HANSA_PEER_STATE',
      message:
        /is accepting an invitation of bruges\.example at the same time, which takes precedence/,
    });
    peer = undefined;
    const { redeemed } = await redeem(bruges);
    assert.equal(redeemed?.trustDomain, 'bruges.example');
  });

  test('a site with the same name and other keys takes no place and is refused', async () => {
    await accepting(novgorod);
    await assert.rejects(redeem(falseNovgorod, 'novgorod.example'), {
      code: 'HANSA_INVITATION_REFUSED',
      message: /is already a peer \(proposed\)/,
    });
  });

  test('a site that puts a pinned key of another beside its own is that site for nobody', async () => {
    await accepting(novgorod);
    const both = documentOf([falseNovgorod, novgorod]);
    await assert.rejects(redeem(falseNovgorod, 'novgorod.example', both), {
      code: 'HANSA_INVITATION_REFUSED',
      message: /is already a peer \(proposed\)/,
    });
    peer = undefined;
    const { id, peerings, redeemed } = await redeem(falseNovgorod, undefined, both);
    assert.match(redeemed?.confirmation ?? '', /was for any trust domain/);
    assert.ok(!peerings.hasRedeemed('novgorod.example', keysOf(novgorod), id));
  });

  test('a peer that is more than proposed stays, and the redemption is refused', async () => {
    await accepting(novgorod, 'active', 'accepted');
    await assert.rejects(redeem(novgorod), {
      code: 'HANSA_INVITATION_REFUSED',
      message: /is already a peer \(active\)/,
    });
  });

  test('an acceptance that was refused vouches for nobody', async () => {
    await accepting(novgorod, 'proposed', 'revoked');
    const keys = keysOf(novgorod);
    assert.equal(acceptanceFor(acceptances, 'novgorod.example', keys), undefined);
    peer = undefined;
    const { redeemed } = await redeem(novgorod);
    assert.match(redeemed?.confirmation ?? '', /was for any trust domain/);
  });

  test('accepting confirms only a site that shows a pinned key', async () => {
    const { id, peerings } = await redeem(novgorod);
    assert.ok(peerings.hasRedeemed('novgorod.example', keysOf(novgorod), id));
    assert.ok(!peerings.hasRedeemed('novgorod.example', keysOf(falseNovgorod), id));
    assert.ok(!peerings.hasRedeemed('bruges.example', keysOf(bruges), id));
    assert.ok(!pins(keysOf(novgorod), undefined));
    assert.ok(!pins([], []));
  });
});
