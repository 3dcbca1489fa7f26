// Checks invariants on every commit of every site, in the order in which they became durable. A
// peer changes state only as the table of states allows, with an audit record in the same commit.
// Only one site redeems an invitation. No trust remains in a revoked or deleted peer.

import assert from 'node:assert/strict';
import { spiffeFederationKind } from '../../../src/api/kinds/spiffe-federation.ts';
import type { AuditEvent } from '../../../src/core/audit/event.ts';
import type { Batch, ChangeRow } from '../../../src/core/store/driver.ts';
import { peerFinalizer, peersCollection } from '../../../src/peering/peers/peer-repository.ts';
import { type PeerState, peerTransitions } from '../../../src/peering/peers/peer-states.ts';
import {
  type AcceptanceRecord,
  acceptancesCollection,
  type InvitationRecord,
  invitationsCollection,
  type Redemption,
} from '../../../src/peering/handshake/records.ts';

/** As the database of a site has it. */
export interface SeenPeer {
  readonly uid: string;
  readonly state: PeerState | undefined;
  readonly stateBefore: string | undefined;
  readonly role: string | undefined;
  readonly invitation: string | undefined;
  readonly desired: string;
  /** Whether peering's finalizer is on it. */
  readonly held: boolean;
  readonly sinceMs: number;
}

interface ObjectLike {
  readonly metadata: { readonly uid: string; readonly finalizers?: readonly string[] };
  readonly spec?: { readonly desiredState?: string };
  readonly status?: {
    readonly state?: PeerState;
    readonly stateBefore?: string;
    readonly role?: string;
    readonly invitation?: string;
  };
}

export class Witness {
  readonly #now: () => number;
  readonly #tell: (what: string) => void;
  readonly #peers = new Map<string, SeenPeer>();
  readonly #federations = new Set<string>();
  /** Who redeemed which invitation, over all sites; identifiers are digests of secrets. */
  readonly #redeemed = new Map<string, string>();
  /** Which site made which of these invitations. */
  readonly #inviters = new Map<string, string>();
  readonly #accepted = new Map<string, string>();
  /** Commits are counted: which invitation was taken up when, and which peer was last revoked when. */
  #commits = 0;
  readonly #takenUp = new Map<string, number>();
  readonly #revoked = new Map<string, number>();

  constructor(now: () => number, tell: (what: string) => void) {
    this.#now = now;
    this.#tell = tell;
  }

  peer(site: string, name: string): SeenPeer | undefined {
    return this.#peers.get(`${site}|${name}`);
  }

  isRedeemed(invitation: string): boolean {
    return this.#redeemed.has(invitation);
  }

  /** The trust domain that redeemed the invitation. */
  redeemer(invitation: string | undefined): string | undefined {
    return invitation === undefined ? undefined : this.#redeemed.get(invitation)?.split(' ')[0];
  }

  /** The database of the site was replaced while it was down: what it had forgotten may happen again. */
  putBack(site: string, rows: readonly ChangeRow[]): void {
    const isOurs = (key: string): boolean => key.startsWith(`${site}|`);
    for (const key of this.#peers.keys()) if (isOurs(key)) this.#peers.delete(key);
    for (const key of this.#federations) if (isOurs(key)) this.#federations.delete(key);
    for (const key of this.#revoked.keys()) if (isOurs(key)) this.#revoked.delete(key);
    for (const [invitation, from] of this.#inviters) {
      if (from === site) this.#redeemed.delete(invitation);
    }
    for (const { collection, name, value } of rows) {
      if (value === undefined) continue;
      if (collection === spiffeFederationKind.plural) this.#federations.add(`${site}|${name}`);
      if (collection === invitationsCollection) {
        const { redeemed } = JSON.parse(value.toString('utf8')) as InvitationRecord;
        if (redeemed !== undefined) this.#redeemed.set(name, winnerOf(redeemed));
      }
      if (collection !== peersCollection) continue;
      this.#peers.set(`${site}|${name}`, seenPeer(value, undefined, this.#now()));
    }
  }

  /** Throws where the commit is not as it must be. */
  see(site: string, batch: Batch, events: readonly AuditEvent[]): void {
    this.#commits++;
    for (const change of batch.changes) {
      if (change.collection === peersCollection) this.#seePeer(site, change, events);
      else if (change.collection === invitationsCollection)
        this.#seeInvitation(site, change, events);
      else if (change.collection === acceptancesCollection) this.#seeAcceptance(site, change);
      else if (change.collection === spiffeFederationKind.plural) {
        const key = `${site}|${change.name}`;
        if (change.value === undefined) this.#federations.delete(key);
        else this.#federations.add(key);
      }
    }
  }

  #seePeer(site: string, { name, value }: ChangeRow, events: readonly AuditEvent[]): void {
    const key = `${site}|${name}`;
    const before = this.#peers.get(key);
    if (value === undefined) {
      this.#peers.delete(key);
      this.#tell(`${site} forgets ${name}`);
      // Whoever removed the finalizer can delete a peer that is not revoked; see `Thread.#problemOf`.
      if (before?.held === false) return;
      const state = before?.state;
      assert.ok(state === undefined || state === 'revoked', `${site} lost ${name}, ${state}`);
      assert.ok(!this.#federations.has(key), `${site} lost ${name}, but not its federation`);
      return;
    }
    const next = seenPeer(value, before, this.#now());
    const same = before?.uid === next.uid ? before : undefined;
    const { state, uid, invitation } = next;
    this.#peers.set(key, next);
    if (same?.state === state) return;
    const step = `${site} has ${name} as ${same?.state ?? 'new'} → ${state}`;
    this.#tell(step);
    if (state === 'revoked') this.#revoked.set(key, this.#commits);
    if (state === 'proposed') this.#seeProposed(key, step, invitation ?? '', site);
    const verb = verbOf(same, state);
    assert.ok(verb !== undefined, `${step} is not in the table`);
    const told = events.some((event) => event.verb === verb && event.uid === uid);
    assert.ok(told, `${step} is not in the audit log as ${verb}`);
  }

  /** What was agreed before a revocation ended with it. */
  #seeProposed(key: string, step: string, invitation: string, site: string): void {
    const takenUp = this.#takenUp.get(`${site}|${invitation}`);
    assert.ok(takenUp !== undefined, `${step} without an invitation`);
    const revoked = this.#revoked.get(key);
    assert.ok(revoked === undefined || revoked < takenUp, `${step}, though it was revoked`);
  }

  #takeUp(site: string, invitation: string): void {
    const key = `${site}|${invitation}`;
    if (!this.#takenUp.has(key)) this.#takenUp.set(key, this.#commits);
  }

  #seeInvitation(
    site: string,
    { name: id, value }: ChangeRow,
    events: readonly AuditEvent[],
  ): void {
    if (value === undefined) return;
    const { redeemed, for: whom } = JSON.parse(value.toString('utf8')) as InvitationRecord;
    const known = this.#redeemed.get(id);
    if (redeemed === undefined) {
      assert.equal(known, undefined, `${site}: an invitation that was redeemed is open again`);
      return;
    }
    const winner = winnerOf(redeemed);
    assert.equal(known ?? winner, winner, `${site}: an invitation was redeemed twice`);
    assert.equal(whom ?? redeemed.trustDomain, redeemed.trustDomain, `${site}: not its invitation`);
    if (known !== undefined) return;
    this.#redeemed.set(id, winner);
    this.#inviters.set(id, site);
    this.#takeUp(site, id);
    const told = events.some(
      (event) => event.verb === 'invitation.redeem' && event.name === redeemed.trustDomain,
    );
    assert.ok(told, `${site}: a redemption by ${redeemed.trustDomain} is not in the audit log`);
  }

  #seeAcceptance(site: string, { value }: ChangeRow): void {
    if (value === undefined) return;
    const { state, invitation, secret } = JSON.parse(value.toString('utf8')) as AcceptanceRecord;
    this.#takeUp(site, invitation);
    if (state !== 'accepted') return;
    assert.equal(this.#accepted.get(invitation) ?? site, site, 'two accepted one invitation');
    this.#accepted.set(invitation, site);
    const winner = this.#redeemed.get(invitation)?.split(' ')[0];
    assert.equal(winner, site, `${site} believes to have redeemed what ${winner} did`);
    assert.equal(secret, undefined, `${site} keeps the secret of a redeemed invitation`);
  }
}

function winnerOf({ trustDomain, fingerprint }: Redemption): string {
  return `${trustDomain} ${fingerprint}`;
}

function seenPeer(value: Buffer, before: SeenPeer | undefined, nowMs: number): SeenPeer {
  const { metadata, spec, status } = JSON.parse(value.toString('utf8')) as ObjectLike;
  const { uid, finalizers } = metadata;
  const state = status?.state;
  const isSame = before?.uid === uid && before.state === state;
  return {
    uid,
    state,
    stateBefore: status?.stateBefore,
    role: status?.role,
    invitation: status?.invitation,
    desired: spec?.desiredState ?? 'active',
    held: finalizers?.includes(peerFinalizer) === true,
    sinceMs: isSame ? before.sinceMs : nowMs,
  };
}

/** How the audit log must call this step; undefined where the table has none. */
function verbOf(before: SeenPeer | undefined, state: PeerState | undefined): string | undefined {
  if (before?.state === undefined) return state === 'proposed' ? 'peer.propose' : undefined;
  const { state: from, stateBefore } = before;
  return peerTransitions.find(
    (row) => row.from === from && (row.to === 'state before' ? stateBefore : row.to) === state,
  )?.verb;
}
