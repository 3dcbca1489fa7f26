// Peers rotate their X.509 and JWT authorities repeatedly, over a network that loses and delays
// messages and has partitions, with clocks that differ and jump, and with processes that crash
// before or after any commit or message. The sites replace everything that an old authority signed
// at once, so that peers see SVIDs of the new authority as early as possible.
//
// Invariants: as long as operators only take steps that wait for receipts, no peer rejects a live
// site because it does not know the authority of its certificate. After the faults end, every site
// holds every bundle, and all requested rotations are complete. An emergency rotation to an
// authority that peers confirmed loses no peer. After an emergency rotation to another authority, a
// new invitation restores the peering.

import assert from 'node:assert/strict';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import type { AuthorityKind } from '../../src/core/identity/authority/phases.ts';
import { brokenRule } from '../../src/core/identity/x509/rules.ts';
import { parseChain, validateChain } from '../../src/core/identity/x509/svid-validator.ts';
import { Receipts } from '../../src/trust/rotation/receipts.ts';
import { rotationRecord } from '../../src/trust/rotation/rotation-request.ts';
import { noDiskFaults } from './disk.ts';
import type { Scenario } from './seeds.ts';
import type { Simulation } from './simulation.ts';
import { Operators } from './thread/operators.ts';
import type { ThreadSite } from './thread/site.ts';
import { settleWithinMs, World } from './thread/world.ts';

const busyMs = 60_000;
const stepMs = 1000;
/** Peers tell what they hold: others than peers do not take part here, and need no time. */
const rotation = { spreadSeconds: 1, receiptDeadlineSeconds: 86_400 };
/** An answer may be on its way while its certificate is taken out of the bundle by hand. */
const revokedWithinMs = 10_000;

export const rotationScenario: Scenario = {
  name: 'rotation',
  async run(simulation) {
    const onRejection = (reason: unknown): void => simulation.fail(reason);
    process.on('unhandledRejection', onRejection);
    try {
      await new Rotations(simulation).play();
    } finally {
      process.off('unhandledRejection', onRejection);
    }
  },
};

class Rotations {
  readonly #simulation: Simulation;
  readonly #world: World;
  readonly #operators: Operators;
  readonly #names: readonly string[];
  /** When each site last took an authority out by hand. */
  readonly #revokedMs = new Map<string, number>();
  #lenient = false;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    const setup = simulation.random.fork('setup');
    this.#names = ['lubeck', 'bruges', 'novgorod']
      .slice(0, setup.pick([2, 2, 3]))
      .map((name) => `${name}.example`);
    const faults = { deaths: 0, disk: noDiskFaults };
    this.#world = new World(simulation, this.#names, faults, {
      rotation,
      refused: (site, other, error) => this.#checkRefusal(site, other, error),
    });
    this.#operators = new Operators(this.#world);
    for (const name of this.#names) {
      simulation.node(name, (process) => this.#world.boot(process), {
        skewMs: setup.integer(-15_000, 15_000),
        rate: 1 + (setup.unit() - 0.5) * 0.0004,
      });
    }
  }

  async play(): Promise<void> {
    const setup = this.#simulation.random.fork('faults');
    for (const [one, other] of this.#pairs()) {
      await this.#until(this.#operators.peer(one, other, true), 'two sites are peers');
    }
    await this.#settle();
    this.#world.faults = {
      deaths: setup.pick([0, 0.002, 0.01]),
      disk: setup.chance(0.2) ? { longestDelayMs: 10, full: 0.02, unknown: 0.02 } : noDiskFaults,
    };
    this.#disturb(this.#simulation.clock.monotonic() + busyMs);
    await this.#simulation.run(busyMs);
    this.#world.calm();
    await this.#settle();
    await this.#emergencies(setup.pick(this.#names));
  }

  #disturb(untilMs: number): void {
    const simulation = this.#simulation;
    const operators = this.#operators;
    const names = this.#names;
    const often = (label: string, meanMs: number, act: (random: SeededRandom) => unknown): void =>
      simulation.often(label, meanMs, untilMs, act);
    const kindOf = (random: SeededRandom): AuthorityKind => (random.chance(0.7) ? 'x509' : 'jwt');
    const step = (verb: string, random: SeededRandom): Promise<unknown> =>
      operators.rotate(random.pick(names), verb, { kind: kindOf(random) });
    often('rotate', 5000, (random) => step('rotate', random));
    often('prepare', 15_000, (random) => step('prepare', random));
    often('taint', 3000, (random) => step('taint', random));
    often('revoke', 9000, (random) => {
      const name = random.pick(names);
      this.#revokedMs.set(name, simulation.clock.monotonic());
      return operators.rotate(name, 'revoke', { kind: kindOf(random) });
    });
    often('partition', 12_000, (random) => {
      const alone = random.pick(names);
      simulation.network.partition(
        [alone],
        names.filter((name) => name !== alone),
      );
    });
    often('heal', 5000, () => simulation.network.heal());
    often('crash', 15_000, (random) =>
      this.#world.crash(random.pick(names), random.integer(10, 4000)),
    );
    often('jump', 15_000, (random) => this.#world.jump(random.pick(names), random));
  }

  /** A peer that answers as itself, with what its authorities signed, is believed. */
  #checkRefusal(site: string, other: string, error: unknown): void {
    if (this.#lenient || brokenRule(error) !== 'unknown-authority') return;
    const revokedMs = this.#revokedMs.get(other);
    const nowMs = this.#simulation.clock.monotonic();
    if (revokedMs !== undefined && nowMs - revokedMs < revokedWithinMs) return;
    this.#simulation.fail(
      new Error(`${site} does not believe ${other}, which only rotated: ${String(error)}`),
    );
  }

  /** Both ways: one that loses nobody, and one that does. */
  async #emergencies(name: string): Promise<void> {
    const others = this.#names.filter((other) => other !== name);
    await this.#makeReady(name);
    await this.#settle();
    await this.#emergency(name, false);
    await this.#settle();

    this.#lenient = true;
    await this.#emergency(name, true);
    await this.#simulation.run(stepMs);
    for (const other of others) {
      await this.#until(this.#operators.revoke(name, other), 'revoked');
      await this.#until(this.#operators.revoke(other, name), 'revoked');
      await this.#simulation.run(stepMs);
      await this.#until(this.#operators.peer(name, other, false), 'made anew');
    }
    this.#lenient = false;
    await this.#settle();
  }

  /** One is prepared; where there are too many by now, the oldest make room. */
  async #makeReady(name: string): Promise<void> {
    const ask = (verb: string): Promise<string | undefined> =>
      this.#until(this.#operators.rotate(name, verb), verb);
    for (let tries = 0; ; tries++) {
      const answer = await ask('prepare');
      if (answer === 'ok' || answer === 'HANSA_ALREADY_EXISTS') return;
      assert.ok(tries < 10, `an authority cannot be prepared: ${answer}`);
      this.#revokedMs.set(name, this.#simulation.clock.monotonic());
      await ask('taint');
      await ask('revoke');
    }
  }

  async #emergency(name: string, fresh: boolean): Promise<void> {
    const site = this.#site(name);
    const before = site.authority.certificate.fingerprint;
    const asked = this.#operators.rotate(name, 'rotate', { emergency: true, fresh });
    assert.equal(await this.#until(asked, 'an emergency is over'), 'ok');
    assert.ok(site.authority.bundle.authorities.every(({ fingerprint }) => fingerprint !== before));
    await this.#simulation.run(10);
    assert.notEqual(
      site.credentials.current.authorityId,
      before,
      'the SVID of the site is replaced',
    );
  }

  #pairs(): readonly (readonly [string, string])[] {
    return this.#names.flatMap((one, index) =>
      this.#names.slice(index + 1).map((other) => [one, other] as const),
    );
  }

  #site(name: string): ThreadSite {
    const site = this.#world.site(name);
    assert.ok(site !== undefined, `${name} is not up`);
    return site;
  }

  async #settle(): Promise<void> {
    const startedMs = this.#simulation.clock.monotonic();
    for (;;) {
      await this.#simulation.run(stepMs);
      const found = this.#problem();
      if (found === undefined) return;
      const sinceMs = this.#simulation.clock.monotonic() - startedMs;
      assert.ok(sinceMs < settleWithinMs, `after ${sinceMs} ms of calm: ${found}`);
    }
  }

  #problem(): string | undefined {
    for (const name of this.#names) {
      if (this.#world.site(name) === undefined) return `${name} is not up`;
    }
    for (const [one, other] of this.#pairs().flatMap(([a, b]) => [
      [a, b],
      [b, a],
    ]) as [string, string][]) {
      const here = this.#site(one);
      const there = this.#site(other);
      const state = this.#world.witness.peer(one, other)?.state;
      if (state !== 'active') return `${one} has ${other} as ${state}`;
      const held = here.bundles.bundleFor(TrustDomain.parse(other));
      if (held?.hash !== there.authority.bundle.hash) {
        return `${one} holds another bundle of ${other} than there is`;
      }
      const nowMs = here.process.clock.now();
      validateChain(parseChain(there.credentials.current.chain), here.bundles, nowMs);
    }
    return this.#unfinished();
  }

  /** What was asked for is done, and everybody has told what they hold. */
  #unfinished(): string | undefined {
    for (const name of this.#names) {
      const { store, authority } = this.#site(name);
      const silent = new Receipts(store).all().find(({ holds }) => !holds);
      if (silent !== undefined) return `${name} has no receipt of ${silent.peer}`;
      for (const kind of ['x509', 'jwt'] as const) {
        const id = rotationRecord(store, kind).requested?.id;
        const waits = authority.authorities.some(
          (one) => one.id === id && one.state === 'prepared',
        );
        if (waits) return `${name} has not activated ${id}, which was asked for`;
      }
    }
    return undefined;
  }

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
