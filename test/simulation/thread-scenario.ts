// Two to fifty sites invite, accept, confirm, grant, suspend, resume and revoke one another, with approvals that
// come late or never, over a network that loses, duplicates and delays messages and has partitions, in one direction
// or both, with clocks that differ and jump, with an attacker on the network, with a site that lies about audit logs,
// with old copies of disks that are put back, and with processes that crash before or after any commit or message.
//
// Some pairs are clean: their operators only want to become peers, and no fault may prevent that.
// The operators of other pairs act at random, and at the end start again with a new invitation.
//
// Invariants, in addition to those of the watches (thread/witness.ts, thread/log-watch.ts,
// thread/approval-watch.ts, thread/acknowledged-writes.ts) and of thread/world.ts: there is no unhandled
// promise rejection. Within a bounded time after the faults end, clean pairs are active and hold
// each other's bundle and grants. Both sites of every other pair agree on its state. No site trusts
// a suspended or revoked peer, or the attacker. Audit logs verify, and every new invitation
// succeeds.

import assert from 'node:assert/strict';
import { approvalTtlMs } from '../../src/core/approvals/approval-object.ts';
import { verifyLog } from '../../src/core/audit/verify.ts';
import { knowsNothing } from '../../src/core/audit/test-verify-options.ts';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { defaultPeeringSettings } from '../../src/peering/settings.ts';
import { noDiskFaults } from './disk.ts';
import type { Scenario } from './seeds.ts';
import type { Simulation } from './simulation.ts';
import { Aftermath } from './thread/aftermath.ts';
import { HostileLog } from './thread/hostile-log.ts';
import { Mallory } from './thread/mallory.ts';
import { Operators } from './thread/operators.ts';
import { People } from './thread/people.ts';
import { type Pair, settle, stepMs, until } from './thread/settled.ts';
import { World, type WorldFaults } from './thread/world.ts';

const busyMs = 20_000;
/** With many sites. */
const shortBusyMs = 8000;
/** About as many commits and messages as a site has in that time. */
const mostSteps = 300;

export const threadScenario: Scenario = {
  name: 'thread',
  seeds: 10_000,
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

class Thread {
  readonly #simulation: Simulation;
  readonly #world: World;
  readonly #operators: Operators;
  /** The same operators, at sites with approvals. */
  readonly #people: People | undefined;
  readonly #mallory: Mallory | undefined;
  readonly #hostile: HostileLog | undefined;
  readonly #names: readonly string[];
  readonly #pairs: readonly Pair[];
  readonly #faults: WorldFaults;
  /** The step at which a site dies once, in runs without other deaths. */
  readonly #diesAt: World['dieAt'];
  readonly #ending: 'forget' | 'restore' | 'none';
  /** What people have begun and not heard the end of. */
  readonly #underWay: Promise<unknown>[] = [];
  #endMs = 0;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    const setup = simulation.random.fork('setup');
    this.#names = namesOf(howMany(setup));
    const diesAtStep = setup.chance(0.3);
    this.#diesAt = diesAtStep
      ? { name: setup.pick(this.#names), steps: setup.integer(1, mostSteps) }
      : undefined;
    this.#faults = {
      deaths: diesAtStep ? 0 : setup.pick([0, 0.005, 0.02, 0.05]),
      disk: setup.chance(0.2) ? { longestDelayMs: 10, full: 0.02, unknown: 0.02 } : noDiskFaults,
    };
    const hasPeople = setup.chance(0.6);
    const ttlMs = setup.pick([3000, 6000, approvalTtlMs]);
    const world = new World(
      simulation,
      this.#names,
      { deaths: 0, disk: noDiskFaults },
      {
        settings: { ...defaultPeeringSettings, passesOnCheckpoints: setup.chance(0.4) },
        approvalTtlMs: ttlMs,
      },
    );
    this.#world = world;
    const twoPersons = new Set(this.#names.filter(() => setup.chance(0.3)));
    this.#people = hasPeople ? new People(world, { ttlMs, twoPersons }) : undefined;
    this.#operators = this.#people ?? new Operators(world);
    for (const name of this.#names) {
      simulation.node(name, (process) => world.boot(process), {
        // SVIDs are dated back by a minute: what is within that must not matter.
        skewMs: setup.integer(-15_000, 15_000),
        rate: 1 + (setup.unit() - 0.5) * 0.0004,
      });
    }
    this.#mallory = setup.chance(0.6) ? new Mallory(world) : undefined;
    this.#hostile = setup.chance(0.3) ? new HostileLog(world, setup.pick(this.#names)) : undefined;
    this.#pairs = pairsOf(this.#names, setup);
    this.#ending = setup.pick(['none', 'none', 'none', 'forget', 'restore']);
  }

  async play(): Promise<void> {
    const simulation = this.#simulation;
    await this.#found();
    const isLarge = this.#names.length > 5;
    this.#endMs = simulation.clock.monotonic() + (isLarge ? shortBusyMs : busyMs);
    this.#world.disturb(this.#faults);
    this.#world.dieAt = this.#diesAt;
    const wanted = this.#pairs
      .filter(({ clean }) => clean)
      .map(({ one, other }, index) => this.#peerSoon(one, other, index));
    this.#disturb();
    await simulation.run(this.#endMs - simulation.clock.monotonic());
    this.#world.calm();
    this.#people?.calm();
    await this.#until(Promise.all(wanted), 'clean pairs have been told to both sites');
    await this.#until(Promise.all(this.#underWay), 'everybody has an answer');
    const clean = this.#pairs.filter((pair) => pair.clean);
    for (const { one, other } of clean) {
      await this.#until(this.#operators.desire(one, other, 'active'), 'a wish is written');
      await this.#until(this.#operators.desire(other, one, 'active'), 'a wish is written');
    }
    await settle(this.#world, this.#operators, this.#pairs);
    this.#operators.acknowledged.check();
    if (clean.length > 0) await this.#end(clean);
    await this.#beginAnew();
    this.#operators.acknowledged.check();
    for (const name of this.#names) await this.#checkAudit(name);
  }

  /** Nothing fails yet. */
  async #found(): Promise<void> {
    const { clock } = this.#simulation;
    const isUp = (name: string): boolean => this.#world.site(name) !== undefined;
    while (!this.#names.every(isUp)) await this.#simulation.run(50);
    const people = this.#people;
    if (people === undefined) return;
    await this.#until(Promise.all(this.#names.map((name) => people.found(name))), 'founded');
    assert.ok(clock.monotonic() < 5000, 'it takes too long until sites are up');
  }

  async #end(peers: readonly Pair[]): Promise<void> {
    const liar = this.#hostile?.name;
    const aftermathOf = (pairs: readonly Pair[]): Aftermath =>
      new Aftermath(this.#world, this.#operators, pairs);
    if (this.#hostile !== undefined) await aftermathOf(peers).expose(this.#hostile);
    // What a site knows to which it lied, or that lied itself, says nothing about a log.
    const honest = peers.filter(({ one, other }) => one !== liar && other !== liar);
    if (honest.length === 0) return;
    if (this.#ending === 'forget') await aftermathOf(honest).forget();
    if (this.#ending === 'restore') await aftermathOf(honest).restore();
  }

  #peerSoon(one: string, other: string, index: number): Promise<void> {
    const random = this.#simulation.random.fork(`peer/${index}`);
    const meant = random.chance(0.6);
    const crosses = random.chance(0.3);
    const apartMs = random.pick([0, 20, 100, 1000]);
    return new Promise((resolve) => {
      const leftMs = this.#endMs - this.#simulation.clock.monotonic();
      this.#simulation.clock.timer(random.integer(0, Math.floor(leftMs / 2)), () => {
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
      simulation.often(label, meanMs, this.#endMs, (random) => {
        const begun = act(random);
        if (begun instanceof Promise) this.#underWay.push(begun);
      });
    const wild = this.#pairs.filter(({ clean }) => !clean);
    const turn = (random: SeededRandom, pairs: readonly Pair[]): readonly [string, string] => {
      const { one, other } = random.pick(pairs);
      return random.chance(0.5) ? [one, other] : [other, one];
    };
    if (wild.length > 0) {
      often('invite', 3000, (random) => this.#inviteWildly(...turn(random, wild), random));
      often('revoke', 8000, (random) =>
        operators.revoke(...turn(random, wild), random.chance(0.2) ? 'it was stolen' : undefined),
      );
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
    often('cut', 7000, (random) => {
      const { one, other } = random.pick(this.#pairs);
      if (random.chance(0.5)) simulation.network.cut(one, other);
      else simulation.network.cut(other, one);
    });
    const people = this.#people;
    if (people !== undefined) {
      often('replace', 15_000, (random) => people.replaceApprover(random.pick(names)));
    }
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
        if (line === undefined || this.#simulation.clock.monotonic() >= this.#endMs) continue;
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
        if (this.#simulation.clock.monotonic() >= this.#endMs) return;
        this.#underWay.push(this.#operators.ask(taker, 'accept', { invitation: line }));
      });
    }
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
    await settle(this.#world, operators, [{ ...pair, clean: true }]);
  }

  async #checkAudit(name: string): Promise<void> {
    const site = this.#world.site(name);
    assert.ok(site !== undefined, `${name} is not up`);
    if (this.#world.logs.isStopped(name)) return;
    const checkpoint = await this.#until(site.audit.checkpoint(), 'a checkpoint is signed');
    await verifyLog(site.store.auditLog, checkpoint, { ...knowsNothing, key: site.audit.verifier });
  }

  #until<T>(task: Promise<T>, what: string): Promise<T> {
    return until(this.#world, task, what);
  }
}

/** Mostly few, because a run takes longer with each. */
function howMany(setup: SeededRandom): number {
  if (setup.chance(0.92)) return setup.pick([2, 2, 2, 3]);
  return setup.chance(0.93) ? setup.integer(4, 5) : setup.integer(6, 50);
}

function namesOf(count: number): readonly string[] {
  const towns = ['lubeck', 'bruges', 'novgorod', 'bergen', 'reval'];
  return Array.from({ length: count }, (_, at) => `${towns[at] ?? `town-${at}`}.example`);
}

/** All of a few sites, or as many as make a connected graph of many. */
function pairsOf(names: readonly string[], setup: SeededRandom): readonly Pair[] {
  const isLarge = names.length > 5;
  return names.flatMap((other, index) => {
    const others = names.slice(0, index);
    const partners = isLarge && index > 1 ? [setup.pick(others)] : others;
    return partners.map((one) => {
      const [inviter, acceptor] = setup.chance(0.5) ? [other, one] : [one, other];
      return { one: inviter, other: acceptor, clean: setup.chance(isLarge ? 0.8 : 0.5) };
    });
  });
}
