// Every state that the handshake stores, in records and in peers, is in the table of peer states, and
// every change of a stored state is a transition of the table, whatever happens in which order.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { peeringError } from '../errors.ts';
import { initialState, isLive, peerTransitions } from '../peers/peer-states.ts';
import {
  type AcceptanceRecord,
  acceptancesCollection,
  type InvitationRecord,
  invitationsCollection,
} from './records.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { secretPlace } from './acceptances.ts';
import { acceptAgain, inviteAgain, peerToReenrol } from './reenrolment.ts';
import { testAcceptance, type TestPeerSite, testPeerSite } from './test-peer-site.ts';
import { printOf, rebuilt } from './test-reenrolment.ts';

const name = 'bruges.example';
const { signal } = new AbortController();
const document = documentOf([await testIdentity(name)]);
const operator = {
  caller: { user: 'alice', groups: [], via: 'certificate' },
  origin: {},
} as const;

const edges = new Set(
  peerTransitions.flatMap(({ from, to }) =>
    to === 'state before'
      ? ['enrolled', 'active', 'degraded'].map((state) => `${from} ${state}`)
      : [`${from} ${to}`],
  ),
);

/** What happens to the peer of one site. */
const happenings = [
  'redeemed',
  'redeemed, to be confirmed',
  'accepted',
  'confirm',
  'reconcile',
  'other replica',
  'heartbeat',
  'silence',
  'suspend',
  'resume',
  'reenrol',
  'redeemed again',
  'accepted again',
  'revoke',
  'delete',
  'time passes',
] as const;
type Happening = (typeof happenings)[number];
type Answer = 'accepted' | 'pending' | 'refused' | 'away';

/** Checks every commit of the store. */
function watchStates({ store }: TestPeerSite, seen: Set<string>): void {
  const states = new Map<string, string | undefined>();
  const commit = store.commit.bind(store);
  store.commit = async (what) => {
    const committed = await commit(what);
    for (const { collection, name: key } of what.delete ?? [])
      states.delete(`${collection} ${key}`);
    for (const { collection, name: key } of what.put ?? []) {
      const entry = store.get(collection, key);
      const value: unknown = entry && JSON.parse(Buffer.from(entry.value).toString('utf8'));
      const state = stateIn(collection, value);
      const place = `${collection} ${key}`;
      const before = states.get(place);
      states.set(place, state);
      if (state === undefined || state === before) continue;
      seen.add(state);
      // A record of a handshake gives way to a new one, which begins or was agreed at once: after it
      // ended, or because the peer re-enrols.
      const isNew =
        before === undefined ||
        (collection !== 'federationpeers' &&
          (before === 'revoked' || (before === 'accepted' && state === initialState)));
      if (isNew)
        assert.ok(state === initialState || state === 'accepted', `${place} began ${state}`);
      else assert.ok(edges.has(`${before} ${state}`), `${place}: ${before} to ${state}`);
    }
    return committed;
  };
}

function stateIn(collection: string, value: unknown): string | undefined {
  if (collection === 'federationpeers') return (value as FederationPeer).status?.state;
  if (collection === acceptancesCollection) return (value as AcceptanceRecord).state;
  if (collection === invitationsCollection) return (value as InvitationRecord).redeemed?.state;
  return undefined;
}

async function happen(site: TestPeerSite, what: Happening, at: number): Promise<unknown> {
  const { handshake, peers, inviter } = site;
  const want = (desiredState: 'active' | 'suspended') =>
    site.peerObjects.patchSpec(name, (peer) => ({ ...peer.spec, desiredState }), {
      controller: 'someone',
    });
  switch (what) {
    case 'redeemed':
      return site.redeem(name, {}, { bundle: document }, `i${at}`);
    case 'redeemed, to be confirmed':
      return site.redeem(name, {}, { bundle: document, confirmation: 'a test' }, `i${at}`);
    case 'accepted':
      return handshake.acceptances.get(name) === undefined
        ? testAcceptance(site, name, { invitation: `a${at}` })
        : undefined;
    case 'confirm':
      return inviter.confirm(name, operator);
    case 'reconcile':
      return handshake.reconcile(name, signal);
    case 'other replica':
      return Promise.allSettled([
        handshake.reconcile(name, signal),
        site.otherHandshake.reconcile(name, signal),
      ]);
    case 'heartbeat':
      await peers.step(name, 'activate', 'a heartbeat');
      return peers.step(name, 'recover', 'a heartbeat');
    case 'silence':
      return peers.step(name, 'degrade', 'silence');
    case 'suspend':
      return want('suspended');
    case 'resume':
      return want('active');
    case 'reenrol':
      return inviteAgain(
        site.parts,
        await peerToReenrol(site.parts, name),
        at % 2 === 0 ? { forKeys: printOf(rebuilt) } : {},
        operator,
        undefined,
      );
    case 'redeemed again':
      return redeemOpen(site);
    case 'accepted again': {
      const known = handshake.acceptances.get(name);
      const record = await testRecord(site, `b${at}`);
      const peer = await peerToReenrol(site.parts, name);
      return acceptAgain(site.parts, peer, known, record, [], operator, undefined);
    }
    case 'revoke':
      return handshake.revoke(name, operator);
    case 'delete':
      return site.peerObjects.delete(name, { controller: 'someone' });
    case 'time passes':
      return site.clock.advance(3_600_000);
  }
}

/** The site with the new keys redeems the invitation to re-enrol it, without the secret that only it knows. */
async function redeemOpen({ inviter, clock }: TestPeerSite): Promise<void> {
  for (const kept of inviter.invitations.list()) {
    const { reenrols, redeemed, cancelled, expiresAtMs } = kept.value;
    if (reenrols === undefined || redeemed !== undefined || cancelled !== undefined) continue;
    if (clock.now() >= expiresAtMs) continue;
    const confirmation = kept.value.forKeys === undefined ? { confirmation: 'a test' } : {};
    await inviter.invitations.put(kept.name, kept, {
      ...kept.value,
      redeemed: {
        state: kept.value.forKeys === undefined ? 'proposed' : 'accepted',
        trustDomain: name,
        url: `https://${name}:9443`,
        bundle: documentOf([rebuilt]),
        fingerprint: printOf(rebuilt),
        contractVersion: 1,
        atMs: clock.now(),
        madeUid: reenrols,
        ...confirmation,
      },
    });
  }
}

async function testRecord(
  { clock, parts }: TestPeerSite,
  invitation: string,
): Promise<AcceptanceRecord> {
  const secret = await parts.sealer.seal(secretPlace(name, invitation), Buffer.alloc(32, 2));
  return {
    secret: secret.toString('base64'),
    consent: 'approver',
    invitation,
    url: `https://${name}:8443`,
    keys: ['ab'.repeat(32)],
    expiresAtMs: clock.now() + 60_000,
    atMs: clock.now(),
    state: 'proposed',
  };
}

suite('the handshake', () => {
  test('stores no state and no change of state outside of the table', async () => {
    const seen = new Set<string>();
    let completed = 0;
    await fc.assert(
      fc.asyncProperty(
        // Many walks begin with a peer, which has more ways to go.
        fc.constantFrom<readonly Happening[]>([], ['redeemed', 'reconcile']),
        fc.array(
          fc.record({
            what: fc.oneof(
              { weight: 2, arbitrary: fc.constantFrom(...happenings) },
              { weight: 1, arbitrary: fc.constant('reconcile' as const) },
              { weight: 1, arbitrary: fc.constantFrom('heartbeat' as const, 'silence' as const) },
              {
                weight: 1,
                arbitrary: fc.constantFrom(
                  'reenrol' as const,
                  'redeemed again' as const,
                  'accepted again' as const,
                ),
              },
            ),
            answer: fc.constantFrom<Answer>('accepted', 'pending', 'refused', 'away'),
          }),
          { minLength: 5, maxLength: 25 },
        ),
        async (first, walk) => {
          const steps = [...first.map((what) => ({ what, answer: 'away' as const })), ...walk];
          let answer: Answer = 'away';
          const site = await testPeerSite({
            redeem: async () => {
              if (answer === 'away') throw peeringError('HANSA_PEER_UNREACHABLE', 'a test');
              if (answer === 'refused') throw peeringError('HANSA_INVITATION_REFUSED', 'a test');
              return { state: answer, contractVersion: 1, document };
            },
          });
          watchStates(site, seen);
          for (const [at, step] of steps.entries()) {
            ({ answer } = step);
            await happen(site, step.what, at).catch((error: unknown) => {
              assert.match(String((error as { code?: string }).code), /^HANSA_/, String(error));
            });
            const { state, reenrolments } = (await site.peers.get(name))?.status ?? {};
            if (reenrolments !== undefined && isLive(state)) completed++;
          }
          for (let round = 0; round < 3; round++) await site.handshake.reconcile(name, signal);
          await isSettled(site);
        },
      ),
      { numRuns: 120, seed: 18 },
    );
    assert.ok(completed > 0, 'some walks complete a re-enrolment');
    // The walks reach every state.
    const all = new Set<string>(peerTransitions.map(({ from }) => from));
    assert.deepEqual([...seen].toSorted(), [...all, 'revoked'].toSorted());
  });
});

/** The peer has followed its record, and the site trusts only a peer that it may trust. */
async function isSettled(site: TestPeerSite): Promise<void> {
  const peer = await site.peers.get(name);
  const { state } = peer?.status ?? {};
  const record = peer && site.parts.peerings.of(peer);
  if (record?.state === 'revoked') assert.equal(state, 'revoked');
  if (record?.state === 'accepted') assert.ok(state !== 'proposed' && state !== 'accepted');
  if (state === 'proposed' && peer?.status?.reenrolments !== undefined) {
    assert.ok(record?.state !== 'accepted' && record?.state !== 'revoked');
  }
  const federation = await site.federations.get(name);
  const isTrusted = federation !== undefined && !federation.spec.quarantined;
  const mayTrust = state === 'enrolled' || state === 'active' || state === 'degraded';
  assert.equal(isTrusted, mayTrust, `${state}`);
}
