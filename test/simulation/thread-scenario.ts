// Two to five sites invite, accept, confirm, grant, suspend, resume and revoke one another, over a
// network that loses, duplicates and delays messages and has partitions, with clocks that differ
// and jump, with an attacker on the network, and with processes that crash before or after any
// commit or message.
//
// Some pairs are clean: their operators only want to become peers, and no fault may prevent that.
// The operators of other pairs act at random, and at the end start again with a new invitation.
//
// Invariants, in addition to those of thread-witness.ts and thread-world.ts: there is no unhandled
// promise rejection. Within a bounded time after the faults end, clean pairs are active and hold
// each other's bundle and grants. Both sites of every other pair agree on its state. No site trusts
// a suspended or revoked peer, or the attacker. Audit logs verify, and every new invitation
// succeeds.

import assert from 'node:assert/strict';
import { federationGrantKind, type FederationGrant } from '../../src/api/kinds/federation-grant.ts';
import { federationPeerKind, type FederationPeer } from '../../src/api/kinds/federation-peer.ts';
import { serviceOfferKind, type ServiceOffer } from '../../src/api/kinds/service-offer.ts';
import { jsonEquals } from '../../src/api/schema/json.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { verifyLog } from '../../src/core/audit/verify.ts';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { offersFor } from '../../src/peering/grants/offers.ts';
import { isLive } from '../../src/peering/peers/peer-states.ts';
import { acceptancesCollection } from '../../src/peering/handshake/records.ts';
import { noDiskFaults } from './disk.ts';
import type { Scenario } from './seeds.ts';
import type { Simulation } from './simulation.ts';
import { Mallory, malloryName } from './thread-mallory.ts';
import { Operators } from './thread-operators.ts';
import type { ThreadSite } from './thread-site.ts';
import type { SeenPeer } from './thread-witness.ts';
import { settleWithinMs, World } from './thread-world.ts';

const busyMs = 20_000;
/** What has come to rest stays there. */
const restMs = 3000;
const stepMs = 1000;

export const threadScenario: Scenario = {
  name: 'thread',
  async run(simulation) {
    const onRejection = (reason: unknown): void => simulation.fail(reason);
    process.on('unhandledRejection', onRejection);
    try {
      await new Thread(simulation).play();
    } finally {
      process.off('unhandledRejection', onRejection);
    }
  },
};

interface Pair {
  readonly one: string;
  readonly other: string;
  readonly clean: boolean;
}

class Thread {
  readonly #simulation: Simulation;
  readonly #world: World;
  readonly #operators: Operators;
  readonly #mallory: Mallory | undefined;
  readonly #names: readonly string[];
  readonly #pairs: readonly Pair[];
  /** What people have begun and not heard the end of. */
  readonly #underWay: Promise<unknown>[] = [];

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    const setup = simulation.random.fork('setup');
    const count = setup.chance(0.92) ? setup.pick([2, 2, 2, 3]) : setup.integer(4, 5);
    this.#names = ['lubeck', 'bruges', 'novgorod', 'bergen', 'reval']
      .slice(0, count)
      .map((name) => `${name}.example`);
    const world = new World(simulation, this.#names, {
      deaths: setup.pick([0, 0.005, 0.02, 0.05]),
      disk: setup.chance(0.2) ? { longestDelayMs: 10, full: 0.02, unknown: 0.02 } : noDiskFaults,
    });
    this.#world = world;
    this.#operators = new Operators(world);
    for (const name of this.#names) {
      simulation.node(name, (process) => world.boot(process), {
        // SVIDs are dated back by a minute: what is within that must not matter.
        skewMs: setup.integer(-15_000, 15_000),
        rate: 1 + (setup.unit() - 0.5) * 0.0004,
      });
    }
    this.#mallory = setup.chance(0.6) ? new Mallory(world) : undefined;
    this.#pairs = this.#names.flatMap((one, index) =>
      this.#names.slice(index + 1).map((other) => {
        const turned = setup.chance(0.5);
        const [inviter, acceptor] = turned ? [other, one] : [one, other];
        return { one: inviter, other: acceptor, clean: setup.chance(0.5) };
      }),
    );
  }

  async play(): Promise<void> {
    const simulation = this.#simulation;
    const wanted = this.#pairs
      .filter(({ clean }) => clean)
      .map(({ one, other }, index) => this.#peerSoon(one, other, index));
    this.#disturb();
    await simulation.run(busyMs);
    this.#world.calm();
    await this.#until(Promise.all(wanted), 'clean pairs have been told to both sites');
    await this.#until(Promise.all(this.#underWay), 'everybody has an answer');
    for (const { one, other, clean } of this.#pairs) {
      if (!clean) continue;
      await this.#until(this.#operators.desire(one, other, 'active'), 'a wish is written');
      await this.#until(this.#operators.desire(other, one, 'active'), 'a wish is written');
    }
    await this.#settle(this.#pairs);
    await this.#beginAnew();
    for (const name of this.#names) await this.#checkAudit(name);
  }

  #peerSoon(one: string, other: string, index: number): Promise<void> {
    const random = this.#simulation.random.fork(`peer/${index}`);
    const meant = random.chance(0.6);
    const crosses = random.chance(0.3);
    const apartMs = random.pick([0, 20, 100, 1000]);
    return new Promise((resolve) => {
      this.#simulation.clock.timer(random.integer(0, busyMs / 2), () => {
        resolve(
          crosses
            ? this.#operators.cross(one, other, meant, apartMs)
            : this.#operators.peer(one, other, meant),
        );
      });
    });
  }

  /** Everything that goes wrong, or is done by people who change their minds. */
  #disturb(): void {
    const simulation = this.#simulation;
    const world = this.#world;
    const operators = this.#operators;
    const names = this.#names;
    const often = (label: string, meanMs: number, act: (random: SeededRandom) => unknown): void =>
      simulation.often(label, meanMs, busyMs, act);
    const wild = this.#pairs.filter(({ clean }) => !clean);
    const turn = (random: SeededRandom, pairs: readonly Pair[]): readonly [string, string] => {
      const { one, other } = random.pick(pairs);
      return random.chance(0.5) ? [one, other] : [other, one];
    };
    if (wild.length > 0) {
      often('invite', 3000, (random) => this.#inviteWildly(...turn(random, wild), random));
      often('revoke', 8000, (random) => operators.revoke(...turn(random, wild)));
      often('delete', 20_000, (random) => operators.deletePeer(...turn(random, wild)));
      often('declare', 15_000, (random) => operators.declare(...turn(random, wild)));
      often('strip', 20_000, async (random) => {
        const [name, other] = turn(random, wild);
        const then = random.pick(['keep', 'revoke', 'delete']);
        await operators.removeFinalizer(name, other);
        if (then === 'revoke') await operators.revoke(name, other);
        if (then === 'delete') await operators.deletePeer(name, other);
      });
    }
    often('confirm', 2500, (random) => operators.confirmAll(random.pick(names), names));
    often('suspend', 7000, (random) => operators.desire(...turn(random, this.#pairs), 'suspended'));
    often('resume', 4000, (random) => operators.desire(...turn(random, this.#pairs), 'active'));
    often('grant', 4000, (random) => operators.grant(...turn(random, this.#pairs), random));
    often('partition', 9000, (random) => {
      const alone = random.pick(names);
      simulation.network.partition(
        [alone],
        names.filter((name) => name !== alone),
      );
    });
    often('heal', 4000, () => simulation.network.heal());
    often('crash', 10_000, (random) => world.crash(random.pick(names), random.integer(10, 4000)));
    often('jump', 10_000, (random) => world.jump(random.pick(names), random));
    const mallory = this.#mallory;
    if (mallory === undefined) return;
    often('intercept', 6000, () => mallory.intercept());
    often('pose', 3000, () => mallory.pose());
    often('steal', 3000, (random) => {
      // What clean pairs hand out to anybody leaks only once it is used: who comes first, wins.
      const leaked = operators.lines.filter(
        ({ from, for: whom }) => whom !== undefined || this.#isWild(from),
      );
      if (leaked.length > 0) mallory.steal(random.pick(leaked));
    });
  }

  #isWild(name: string): boolean {
    return this.#pairs.every(({ one, other, clean }) => !clean || (one !== name && other !== name));
  }

  /** One invites, another accepts, or two do, or the wrong one; or nobody; or each invites the other. */
  async #inviteWildly(from: string, to: string, random: SeededRandom): Promise<void> {
    if (random.chance(0.15)) {
      const lines = [
        await this.#operators.invite(from, to),
        await this.#operators.invite(to, from),
      ];
      for (const [taker, line] of [
        [to, lines[0]],
        [from, lines[1]],
      ] as const) {
        if (line === undefined || this.#simulation.clock.monotonic() >= busyMs) continue;
        this.#underWay.push(this.#operators.ask(taker, 'accept', { invitation: line }));
      }
      return;
    }
    const meant = random.chance(0.6);
    const others = this.#pairs
      .filter(({ clean, one, other }) => !clean && (one === from || other === from))
      .map(({ one, other }) => (one === from ? other : one));
    const takers = random.chance(0.25) ? others : [to];
    const delaysMs = takers.map(() => random.integer(0, 2500));
    const line = await this.#operators.invite(from, meant ? to : undefined);
    if (line === undefined || random.chance(0.1)) return;
    for (const [at, taker] of takers.entries()) {
      this.#simulation.clock.timer(delaysMs[at] ?? 0, () => {
        if (this.#simulation.clock.monotonic() >= busyMs) return;
        this.#underWay.push(this.#operators.ask(taker, 'accept', { invitation: line }));
      });
    }
  }

  /** Lets time pass until it holds, for no longer than it may take, and then a little longer. */
  async #settle(pairs: readonly Pair[]): Promise<void> {
    const simulation = this.#simulation;
    const startedMs = simulation.clock.monotonic();
    const problem = async (): Promise<string | undefined> => {
      for (const pair of pairs) {
        const found = await this.#problemOf(pair);
        if (found !== undefined) return found;
      }
      return undefined;
    };
    for (;;) {
      await simulation.run(stepMs);
      for (const name of this.#names) {
        await this.#until(this.#operators.confirmAll(name, this.#names), 'confirmations');
      }
      const found = await problem();
      if (found === undefined) break;
      const sinceMs = simulation.clock.monotonic() - startedMs;
      assert.ok(sinceMs < settleWithinMs, `after ${sinceMs} ms of calm: ${found}`);
    }
    await simulation.run(restMs);
    const found = await problem();
    assert.equal(found, undefined, `it did not stay so: ${found}`);
  }

  async #problemOf({ one, other, clean }: Pair): Promise<string | undefined> {
    const sites = [this.#world.site(one), this.#world.site(other)];
    const [site, remote] = sites;
    if (site === undefined || remote === undefined) return `${one} or ${other} is not up`;
    const { witness } = this.#world;
    const a = witness.peer(one, other);
    const b = witness.peer(other, one);
    const told = `${one} has ${other} as ${a?.state}, ${other} has ${one} as ${b?.state}`;
    for (const [mine, theirs, peer] of [
      [site, other, a],
      [remote, one, b],
    ] as const) {
      if (this.#world.believes(mine, theirs) !== isLive(peer?.state)) {
        return `${told}, and ${mine.name} ${isLive(peer?.state) ? 'does not believe' : 'believes'} ${theirs}`;
      }
      if (this.#world.believes(mine, malloryName)) return `${mine.name} believes mallory`;
      // Until a site that crashed has its leases back, an operator's wish waits.
      const isSuspended = peer?.state === 'suspended';
      if (
        isSuspended
          ? peer.desired === 'active'
          : isLive(peer?.state) && peer?.desired === 'suspended'
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
      if (begun?.includes('"step":"redeeming"') === true) return `${mine.name} is still redeeming`;
    }
    const agree = isOnePeering(a, b) || this.#invitedEachOther(one, other);
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
  #invitedEachOther(one: string, other: string): boolean {
    const { witness } = this.#world;
    return [
      [one, other],
      [other, one],
    ].every(([mine = '', theirs = '']) => {
      const peer = witness.peer(mine, theirs);
      return peer?.role === 'inviter' && witness.redeemer(peer.invitation) === theirs;
    });
  }

  /** A pair that has done everything to each other can still become peers. */
  async #beginAnew(): Promise<void> {
    const pair = this.#pairs.find(({ clean }) => !clean);
    if (pair === undefined) return;
    const { one, other } = pair;
    const operators = this.#operators;
    await this.#until(operators.revoke(one, other), 'revoked');
    await this.#until(operators.revoke(other, one), 'revoked');
    await this.#simulation.run(stepMs);
    this.#simulation.event('anew');
    await this.#until(operators.peer(one, other, false), 'made anew');
    // What was declared in the meantime may say that it is to be suspended.
    await this.#until(operators.desire(one, other, 'active'), 'a wish is written');
    await this.#until(operators.desire(other, one, 'active'), 'a wish is written');
    await this.#settle([{ ...pair, clean: true }]);
  }

  async #checkAudit(name: string): Promise<void> {
    const site = this.#world.site(name);
    assert.ok(site !== undefined, `${name} is not up`);
    const checkpoint = await this.#until(site.audit.checkpoint(), 'a checkpoint is signed');
    await verifyLog(site.store.auditLog, checkpoint, { key: site.audit.verifier });
  }

  /** Lets time pass until it is done. */
  async #until<T>(task: Promise<T>, what: string): Promise<T> {
    const progress = { done: false };
    const finished = task.finally(() => {
      progress.done = true;
    });
    finished.catch(() => undefined);
    const startedMs = this.#simulation.clock.monotonic();
    while (!progress.done) {
      await this.#simulation.run(50);
      const sinceMs = this.#simulation.clock.monotonic() - startedMs;
      assert.ok(sinceMs < settleWithinMs, `it takes too long until ${what}`);
    }
    return finished;
  }
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
