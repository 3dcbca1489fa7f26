// What must hold between two sites some time after the faults have ended: they agree, trust whom they should, and
// know each other's bundle and offers.

import assert from 'node:assert/strict';
import {
  federationGrantKind,
  type FederationGrant,
} from '../../../src/api/kinds/federation-grant.ts';
import { federationPeerKind, type FederationPeer } from '../../../src/api/kinds/federation-peer.ts';
import { serviceOfferKind, type ServiceOffer } from '../../../src/api/kinds/service-offer.ts';
import { jsonEquals } from '../../../src/api/schema/json.ts';
import { TrustDomain } from '../../../src/api/values/trust-domain.ts';
import { offersFor } from '../../../src/peering/grants/offers.ts';
import {
  type AcceptanceRecord,
  acceptancesCollection,
} from '../../../src/peering/handshake/records.ts';
import { isLive } from '../../../src/peering/peers/peer-states.ts';
import { malloryName } from './mallory.ts';
import type { Operators } from './operators.ts';
import type { ThreadSite } from './site.ts';
import type { SeenPeer } from './witness.ts';
import { settleWithinMs, type World } from './world.ts';

export const stepMs = 1000;
/** What has come to rest stays there. */
const restMs = 3000;

export interface Pair {
  readonly one: string;
  readonly other: string;
  /** Its operators only want to become peers, and nothing may prevent that. */
  readonly clean: boolean;
}

/** Lets time pass until it is done. */
export async function until<T>(world: World, task: Promise<T>, what: string): Promise<T> {
  const progress = { done: false };
  const finished = task.finally(() => {
    progress.done = true;
  });
  finished.catch(() => undefined);
  const startedMs = world.toldWaits.countedMs();
  while (!progress.done) {
    await world.simulation.run(50);
    const sinceMs = world.toldWaits.countedMs() - startedMs;
    assert.ok(sinceMs < settleWithinMs, `it takes too long until ${what}`);
  }
  return finished;
}

/** Lets time pass until nothing is found, for no longer than it may take. */
export async function untilNone(
  world: World,
  problem: () => Promise<string | undefined>,
): Promise<void> {
  const startedMs = world.toldWaits.countedMs();
  for (;;) {
    await world.simulation.run(stepMs);
    const found = await problem();
    if (found === undefined) return;
    const sinceMs = world.toldWaits.countedMs() - startedMs;
    assert.ok(sinceMs < settleWithinMs, `after ${sinceMs} ms of calm: ${found}`);
  }
}

/** Lets time pass until all pairs agree, and then a little longer. Whoever waits for a confirmation gets it. */
export async function settle(
  world: World,
  operators: Operators,
  pairs: readonly Pair[],
): Promise<void> {
  const { simulation, names } = world;
  const problem = async (): Promise<string | undefined> => {
    for (const pair of pairs) {
      const found = await problemOf(world, pair);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  await untilNone(world, async () => {
    const confirmed = Promise.all(names.map((name) => operators.confirmAll(name, names)));
    await until(world, confirmed, 'everybody is confirmed');
    return problem();
  });
  await simulation.run(restMs);
  const found = await problem();
  assert.equal(found, undefined, `it did not stay so: ${found}`);
}

export async function problemOf(
  world: World,
  { one, other, clean }: Pair,
): Promise<string | undefined> {
  const sites = [world.site(one), world.site(other)];
  const [site, remote] = sites;
  if (site === undefined || remote === undefined) return `${one} or ${other} is not up`;
  const { witness } = world;
  const a = witness.peer(one, other);
  const b = witness.peer(other, one);
  const told = `${one} has ${other} as ${a?.state}, ${other} has ${one} as ${b?.state}`;
  for (const [mine, theirs, peer] of [
    [site, other, a],
    [remote, one, b],
  ] as const) {
    if (world.believes(mine, theirs) !== isLive(peer?.state)) {
      return `${told}, and ${mine.name} ${isLive(peer?.state) ? 'does not believe' : 'believes'} ${theirs}`;
    }
    if (world.believes(mine, malloryName)) return `${mine.name} believes mallory`;
    // Until a site that crashed has its leases back, an operator's wish waits.
    const isSuspended = peer?.state === 'suspended';
    if (
      isSuspended ? peer.desired === 'active' : isLive(peer?.state) && peer?.desired === 'suspended'
    ) {
      return `${told}, and ${mine.name} has not done what its operator wants of ${theirs}`;
    }
  }
  // What was accepted and has not been tried yet is still to come.
  for (const [mine, theirs] of [
    [site, other],
    [remote, one],
  ] as const) {
    const begun = mine.store.get(acceptancesCollection, theirs)?.value.toString('utf8');
    const { state, waits } = JSON.parse(begun ?? '{}') as Partial<AcceptanceRecord>;
    if (state === 'proposed' && waits !== true) return `${mine.name} is still redeeming`;
  }
  const agree = isOnePeering(a, b) || invitedEachOther(world, one, other);
  if (clean || (agree && isLive(a?.state) && isLive(b?.state))) {
    if (a?.state !== 'active' || b?.state !== 'active' || !agree) return told;
    return (await differs(site, remote)) ?? (await differs(remote, site));
  }
  for (const [mine, theirs] of [
    [a, b],
    [b, a],
  ] as const) {
    // One-sided: whoever still wants the other cannot hear from it.
    if (mine?.state === 'active' || mine?.state === 'accepted') return told;
    if (mine?.state === 'proposed' && mine.role === 'acceptor') {
      if (theirs?.state !== 'proposed' || !agree) return told;
    }
  }
  return undefined;
}

/**
 * Each site holds the other by an invitation of its own that the other redeemed. Two crossing
 * invitations end so where one site revoked and deleted the peer before the other heard of it: both
 * operators invited the other, so both consent, and no message tells the two peerings apart.
 */
function invitedEachOther(world: World, one: string, other: string): boolean {
  const { witness } = world;
  return [
    [one, other],
    [other, one],
  ].every(([mine = '', theirs = '']) => {
    const peer = witness.peer(mine, theirs);
    return peer?.role === 'inviter' && witness.redeemer(peer.invitation) === theirs;
  });
}

/** Both sites hold the peer by the same invitation. */
function isOnePeering(a: SeenPeer | undefined, b: SeenPeer | undefined): boolean {
  return a?.invitation !== undefined && a.invitation === b?.invitation;
}

/** Whether the bundle and the offers that one site has of the other are those that this one has. */
async function differs(here: ThreadSite, there: ThreadSite): Promise<string | undefined> {
  const held = here.bundles.bundleFor(TrustDomain.parse(there.name));
  if (held?.hash !== there.authority.bundle.hash) {
    return `${here.name} holds another bundle of ${there.name} than there is`;
  }
  const peer = await here.resources<FederationPeer>(federationPeerKind).get(there.name);
  const told = offersFor(
    here.name,
    (await there.resources(federationGrantKind).list()) as unknown as readonly FederationGrant[],
    (await there.resources(serviceOfferKind).list()) as unknown as readonly ServiceOffer[],
    there.process.clock.now(),
  );
  return jsonEquals(peer?.status?.offers ?? [], told)
    ? undefined
    : `${here.name} knows other offers of ${there.name} than are granted`;
}
