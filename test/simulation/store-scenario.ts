// Many writers use a store whose disk is slow, fills up, and sometimes does not report the outcome
// of a transaction. The process crashes at any point and opens the store again.
//
// Invariants: acknowledged commits are stored, and rejected ones are not. A commit in flight is
// stored with its audit record as a whole or not at all. Expectations were true when they were
// checked. Revisions have no gaps. Watchers see every change once and in order, across restarts.
// The Merkle tree equals one that a second implementation computes from the audit records, and
// extends every signed checkpoint.

import assert from 'node:assert/strict';
import type { KeyObject } from 'node:crypto';
import type { SignedCheckpoint } from '../../src/core/audit/checkpoint.ts';
import { noteSigner } from '../../src/core/audit/note.ts';
import { Audit, storedCheckpoint } from '../../src/core/audit/log.ts';
import { Frontier, leafHash } from '../../src/core/merkle/tree.ts';
import { rootHashAt } from '../../src/core/audit/proof.ts';
import { sleep } from '../../src/core/clock/clock.ts';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { type ErrorCode, hasCode, toHansaError } from '../../src/core/errors/error.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import type { Change, Commit, Expectation, Store } from '../../src/core/store/store.ts';
import { noDiskFaults, SimulatedDatabase } from './disk.ts';
import { seededKey } from './seeded-key.ts';
import type { Scenario } from './seeds.ts';
import type { Process, Simulation } from './simulation.ts';

const collections = ['things', 'others'];
const names = ['a', 'b', 'c', 'd'];
const writers = 4;
const busyMs = 4000;
const quietMs = 1000;

export const storeScenario: Scenario = {
  name: 'store',
  async run(simulation) {
    const world = new World(simulation);
    const node = simulation.node('site', (process) => world.boot(process));
    simulation.often('crash', 400, busyMs, (random) => {
      node.crash();
      simulation.clock.timer(random.integer(1, 100), () => node.start());
    });
    simulation.often('compact', 300, busyMs, (random) => world.compact(random));
    await simulation.run(busyMs);
    world.calm();
    node.start();
    await simulation.run(quietMs);
    node.crash();
    node.start();
    await simulation.run(1);
    await world.check();
  },
};

/** What a writer asked for, and what it was told. */
interface Attempt {
  readonly id: number;
  outcome: 'unknown' | 'acknowledged' | 'refused';
}

/** What is written into values and audit rows, so that the truth can be compared with the attempts. */
interface Mark {
  readonly id: number;
  /** The revision that was expected of the record; 0 for absent, undefined for none. */
  readonly expected?: number;
}

class World {
  readonly #simulation: Simulation;
  readonly #database: SimulatedDatabase;
  readonly #attempts: Attempt[] = [];
  readonly #readers = collections.map((collection) => new Reader(collection));
  readonly #signed: SignedCheckpoint[] = [];
  readonly #key: KeyObject;
  #store: Store | undefined;
  #busy = true;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#key = seededKey(simulation.random.fork('key'));
    this.#database = new SimulatedDatabase(simulation, {
      longestDelayMs: 6,
      full: 0.05,
      unknown: 0.05,
    });
  }

  boot(process: Process): void {
    process.spawn(async () => {
      const store = await this.#database.open(process);
      this.#store = store;
      for (const reader of this.#readers) reader.follow(process, store);
      const audit = await this.#startAudit(process, store);
      process.spawn(() => this.#sign(process, audit));
      for (let i = 0; i < writers; i++) {
        const random = process.random.fork(`writer/${i}`);
        process.spawn(async () => {
          while (this.#busy) {
            await sleep(process.clock, random.integer(0, 30));
            await this.#write(store, random);
          }
        });
      }
    });
  }

  /** As the site does: the empty log is signed before anything is recorded in it. */
  async #startAudit(process: Process, store: Store): Promise<Audit> {
    const signer = noteSigner('site.example', this.#key);
    const metrics = new MetricsRegistry();
    const audit = new Audit({ store, clock: process.clock, signer, log: process.log, metrics });
    do {
      await audit.start().catch(async (error: unknown) => {
        assert.ok(hasCode(error, 'HANSA_STORE_FULL') || hasCode(error, 'HANSA_UNAVAILABLE'));
        await sleep(process.clock, 50);
      });
    } while (storedCheckpoint(store) === undefined);
    assert.equal(audit.problem, undefined);
    return audit;
  }

  /** Signs checkpoints, as the site does; others keep them. */
  async #sign(process: Process, audit: Audit): Promise<void> {
    while (this.#busy) {
      await sleep(process.clock, 50);
      const signed = await audit.checkpoint().catch(() => undefined);
      if (signed !== undefined) this.#signed.push(signed);
    }
  }

  async #write(store: Store, random: SeededRandom): Promise<void> {
    const attempt: Attempt = { id: this.#attempts.length, outcome: 'unknown' };
    this.#attempts.push(attempt);
    const commit = this.#commit(store, random, attempt.id);
    try {
      const { entries, revision } = await store.commit(commit);
      attempt.outcome = 'acknowledged';
      assert.equal(entries.length, commit.put?.length ?? 0);
      assert.ok(store.revision >= revision, 'what is acknowledged is not current');
    } catch (error) {
      attempt.outcome = 'refused';
      const { code } = toHansaError(error);
      const known: readonly ErrorCode[] = [
        'HANSA_CONFLICT',
        'HANSA_STORE_FULL',
        'HANSA_UNAVAILABLE',
      ];
      assert.ok(known.includes(code), String(error));
      this.#simulation.event(`${attempt.id} refused: ${code}`);
    }
  }

  #commit(store: Store, random: SeededRandom, id: number): Commit {
    const collection = random.pick(collections);
    const name = random.pick(names);
    const current = store.get(collection, name);
    const careful = random.chance(0.7);
    const at = current?.revision ?? 'absent';
    const expect: Expectation[] = careful ? [{ collection, name, at }] : [];
    const mark: Mark = careful ? { id, expected: current?.revision ?? 0 } : { id };
    const audit = [
      {
        encode: (position: object) => Buffer.from(JSON.stringify({ ...mark, ...position })),
      },
    ];
    if (random.chance(0.2)) return { expect, delete: [{ collection, name }], audit };
    const encode = (): Buffer => Buffer.from(JSON.stringify(mark));
    const put = [{ collection, name, encode }];
    // A second record, without an expectation, that must come along or not at all.
    if (random.chance(0.3)) {
      const value = Buffer.from(JSON.stringify({ id }));
      put.push({ collection: 'companions', name: String(id), encode: () => value });
    }
    return { expect, put, audit };
  }

  compact(random: SeededRandom): void {
    const store = this.#store;
    const process = this.#simulation.nodeOf('site')?.process;
    if (store === undefined || process === undefined) return;
    const revision = Math.max(0, store.revision - random.integer(0, 30));
    process.spawn(() => store.compact(revision).catch(() => undefined));
  }

  calm(): void {
    this.#busy = false;
    this.#database.faults = noDiskFaults;
  }

  async check(): Promise<void> {
    const truth = this.#replay();
    const store = this.#store as Store;
    assert.equal(store.revision, truth.revision);
    for (const collection of [...collections, 'companions']) {
      const found = store.list(collection).entries.map(({ name, revision }) => [name, revision]);
      const expected = [...truth.current]
        .filter(([key]) => key.startsWith(`${collection}/`))
        .map(([key, revision]) => [key.slice(collection.length + 1), revision] as const)
        .toSorted(([a], [b]) => (a < b ? -1 : 1));
      assert.deepEqual(found, expected);
    }
    await this.#checkAudit(store, truth);
    for (const reader of this.#readers) reader.check(truth.changes.get(reader.collection) ?? []);
    const written = this.#attempts.filter(({ outcome }) => outcome === 'acknowledged').length;
    this.#simulation.event(`${written} of ${this.#attempts.length} writes were acknowledged`);
    assert.ok(written > 20, 'hardly anything was written');
  }

  /** Goes through everything that was written, in order. */
  #replay(): Truth {
    const truth: Truth = {
      revision: 0,
      current: new Map(),
      changes: new Map(),
      companions: new Set(),
    };
    let sequence = 0;
    for (const { base, head, changes } of this.#database.written) {
      assert.equal(base.sequence, sequence, 'a transaction was built on another than the last one');
      sequence = head.sequence;
      for (const { revision, collection, name, value, previous } of changes) {
        assert.equal(revision, ++truth.revision, 'revisions have a gap');
        const key = `${collection}/${name}`;
        assert.equal(previous, truth.current.get(key) ?? 0, `${key} replaced another version`);
        if (value === undefined) truth.current.delete(key);
        else if (collection.includes('.')) truth.current.set(key, revision);
        else {
          const { id, expected } = JSON.parse(value.toString()) as Mark;
          if (expected !== undefined)
            assert.equal(previous, expected, 'an expectation did not hold');
          if (collection === 'companions') truth.companions.add(id);
          truth.current.set(key, revision);
        }
        const seen = truth.changes.get(collection) ?? [];
        seen.push(revision);
        truth.changes.set(collection, seen);
      }
      assert.equal(head.revision, truth.revision);
    }
    return truth;
  }

  async #checkAudit(store: Store, truth: Truth): Promise<void> {
    const rows: Buffer[] = [];
    while (rows.length < store.auditLog.size) {
      rows.push(...(await store.auditLog.read(rows.length, 1000)));
    }
    const frontier = Frontier.empty();
    const ids = new Set<number>();
    rows.forEach((row, at) => {
      const { id, index, revision } = JSON.parse(row.toString()) as Mark & {
        index: number;
        revision: number;
      };
      assert.equal(index, at);
      assert.ok(revision <= truth.revision);
      assert.ok(!ids.has(id), `${id} was recorded twice`);
      ids.add(id);
      frontier.append(leafHash(row));
    });
    assert.deepEqual(store.auditLog.rootHash, frontier.root());
    assert.ok(this.#signed.length > 0, 'no checkpoint was ever signed');
    for (const { size, rootHash } of this.#signed) {
      assert.deepEqual(await rootHashAt(store.auditLog, size), rootHash, 'a checkpoint was broken');
    }
    for (const { id, outcome } of this.#attempts) {
      if (outcome === 'acknowledged') assert.ok(ids.has(id), `${id} was acknowledged and is lost`);
      if (outcome === 'refused') assert.ok(!ids.has(id), `${id} was refused and is there`);
    }
    for (const id of truth.companions) assert.ok(ids.has(id), `half of ${id} is there`);
  }
}

interface Truth {
  revision: number;
  readonly current: Map<string, number>;
  /** Revisions by collection. */
  readonly changes: Map<string, number[]>;
  readonly companions: Set<number>;
}

/** A reader outside of the site, who comes back after each crash and goes on where it was. */
class Reader {
  readonly collection: string;
  /** Stretches without a gap: what was seen above `after`. */
  readonly #stretches: { readonly after: number; readonly seen: number[] }[] = [];
  #last = 0;

  constructor(collection: string) {
    this.collection = collection;
  }

  follow(process: Process, store: Store): void {
    const watcher = {
      changes: (changes: readonly Change[]) => this.#saw(changes),
      ended: () => process.clock.timer(5, () => this.follow(process, store)),
    };
    try {
      store.watch(this.collection, this.#last, watcher);
      if (this.#stretches.length === 0) this.#stretches.push({ after: 0, seen: [] });
    } catch (error) {
      assert.ok(hasCode(error, 'HANSA_EXPIRED'), String(error));
      assert.ok(this.#last < store.compactedRevision, 'the store forgot more than was compacted');
      this.#last = store.list(this.collection).revision;
      this.#stretches.push({ after: this.#last, seen: [] });
      store.watch(this.collection, this.#last, watcher);
    }
  }

  #saw(changes: readonly Change[]): void {
    for (const { collection, revision } of changes) {
      assert.equal(collection, this.collection);
      assert.ok(revision > this.#last, `revision ${revision} came after ${this.#last}`);
      this.#last = revision;
      this.#stretches.at(-1)?.seen.push(revision);
    }
  }

  check(truth: readonly number[]): void {
    assert.equal(this.#last >= (truth.at(-1) ?? 0), true, 'a watcher did not see the last change');
    for (const { after, seen } of this.#stretches) {
      const until = seen.at(-1) ?? after;
      assert.deepEqual(
        seen,
        truth.filter((revision) => revision > after && revision <= until),
        'a watcher missed a change',
      );
    }
  }
}
