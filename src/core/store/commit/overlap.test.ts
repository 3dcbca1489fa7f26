// Transactions that overlap: one is planned and handed over while another is being written. The
// driver here writes a batch when the test says so, or fails.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { VirtualClock } from '../../clock/virtual.ts';
import { HansaError } from '../../errors/error.ts';
import { audit, put, Recorder, turn, withErrorCode } from '../conformance/harness.ts';
import type { Base, Batch } from '../driver.ts';
import { TransactionFailed } from '../driver.ts';
import { defaultHistoryLimits } from '../current/history.ts';
import { MemoryDatabase, MemoryDriver } from '../memory/driver.ts';
import { Replica } from '../replica.ts';

const fates = ['written', 'full', 'unknown, written', 'unknown, lost'] as const;
type Fate = (typeof fates)[number];

const full = new HansaError('HANSA_STORE_FULL', 'the disk is full');

class OverlappingDriver extends MemoryDriver {
  override readonly maxInFlight = 2;
  /** How often `holds` fails before it answers. */
  silent = 0;
  readonly #database: MemoryDatabase;
  readonly #batches: {
    readonly batch: Batch;
    readonly resolve: () => void;
    readonly reject: (failure: TransactionFailed) => void;
  }[] = [];

  constructor(database: MemoryDatabase, clock: VirtualClock) {
    super(database, clock);
    this.#database = database;
  }

  get inFlight(): number {
    return this.#batches.length;
  }

  override transact(build: (base: Base) => Batch | undefined): Promise<void> {
    const batch = build({ nowMs: 0 });
    if (batch === undefined) return Promise.resolve();
    return new Promise((resolve, reject) => this.#batches.push({ batch, resolve, reject }));
  }

  /** Decides the fate of the oldest batch, and lets the store know. */
  async settle(fate: Fate): Promise<void> {
    const oldest = this.#batches.shift();
    if (oldest === undefined) return;
    const { batch, resolve, reject } = oldest;
    if (batch.base.sequence !== this.#database.head.sequence) {
      const moved = new HansaError('HANSA_STORE_CORRUPT', 'someone else wrote to it');
      reject(new TransactionFailed(moved, 'none'));
    } else {
      if (fate === 'written' || fate === 'unknown, written') this.#database.write(batch);
      if (fate === 'written') resolve();
      else reject(new TransactionFailed(full, fate === 'full' ? 'none' : 'unknown'));
    }
    await turn();
  }

  override async holds(batch: Batch): Promise<boolean> {
    if (this.silent-- > 0) throw new Error('the database does not answer');
    return super.holds(batch);
  }

  async settleAll(): Promise<void> {
    while (this.inFlight > 0) await this.settle('written');
  }
}

async function overlapping() {
  const clock = new VirtualClock();
  const database = new MemoryDatabase();
  const driver = new OverlappingDriver(database, clock);
  const store = await Replica.open(driver, { clock, history: defaultHistoryLimits });
  const recorder = new Recorder();
  store.watch('things', 0, recorder);
  await turn();
  return { clock, database, driver, store, recorder };
}

/** Two commits, each in a transaction of its own, both in flight. */
async function twoInFlight() {
  const world = await overlapping();
  const { store, driver } = world;
  const first = store.commit({ put: [put('things', 'a', 'one')], audit: [audit('one')] });
  await turn();
  const second = store.commit({
    expect: [{ collection: 'things', name: 'a', at: 1 }],
    put: [put('things', 'a', 'two')],
    audit: [audit('two')],
  });
  await turn();
  assert.equal(driver.inFlight, 2);
  for (const commit of [first, second]) commit.catch(() => undefined);
  return { ...world, first, second };
}

describe('a commit behind one that is being written', () => {
  test('is decided on that one, and both show only when they are durable', async () => {
    const { driver, store, recorder, first, second } = await twoInFlight();
    assert.equal(store.revision, 0);
    assert.equal(store.get('things', 'a'), undefined);
    assert.deepEqual(recorder.revisions, []);
    await driver.settle('written');
    assert.equal((await first).revision, 1);
    assert.equal(store.get('things', 'a')?.value.toString(), 'one');
    assert.equal(store.auditLog.size, 1);
    assert.deepEqual(recorder.revisions, [1]);
    await driver.settle('written');
    assert.equal((await second).revision, 2);
    assert.equal(store.get('things', 'a')?.value.toString(), 'two');
    assert.deepEqual(recorder.revisions, [1, 2]);
  });

  test('waits where two are in flight already', async () => {
    const { driver, store } = await twoInFlight();
    const third = store.commit({ put: [put('things', 'b')] });
    await turn();
    assert.equal(driver.inFlight, 2);
    await driver.settleAll();
    assert.equal((await third).revision, 3);
  });

  test('sees the leases and the number of records that the one ahead will leave', async () => {
    const { driver, store } = await overlapping();
    const lease = store.leases.acquire('work', 'one', 1000);
    const first = store.commit({ put: [put('things', 'a')] });
    await turn();
    const fenced = store.commit({
      fence: { lease: 'work', epoch: 1 },
      expect: [{ collection: 'things', below: 2 }],
      put: [put('things', 'b')],
    });
    const crowded = assert.rejects(
      store.commit({ expect: [{ collection: 'things', below: 2 }], put: [put('things', 'c')] }),
      withErrorCode('HANSA_CONFLICT'),
    );
    const other = store.leases.acquire('work', 'two', 1000);
    await turn();
    await driver.settleAll();
    assert.equal((await lease)?.epoch, 1);
    assert.equal((await first).revision, 1);
    assert.equal((await fenced).revision, 2);
    assert.equal(await other, undefined);
    await crowded;
  });

  test('is finished before the store closes', async () => {
    const { driver, store, first, second } = await twoInFlight();
    const closed = store.close();
    await turn();
    await driver.settleAll();
    await closed;
    assert.deepEqual([(await first).revision, (await second).revision], [1, 2]);
  });
});

describe('a commit behind one that fails', () => {
  test('fails with it, nothing of either shows, and revisions go on without a gap', async () => {
    const { database, driver, store, recorder, first, second } = await twoInFlight();
    await driver.settle('full');
    await driver.settle('written');
    await assert.rejects(first, withErrorCode('HANSA_STORE_FULL'));
    await assert.rejects(second, withErrorCode('HANSA_STORE_FULL'));
    assert.equal(store.problem?.code, 'HANSA_STORE_FULL');
    assert.equal(store.revision, 0);
    assert.equal(store.count('things'), 0);
    assert.equal(database.head.sequence, 0);
    const third = store.commit({ put: [put('things', 'a')], audit: [audit('three')] });
    await turn();
    await driver.settleAll();
    assert.equal((await third).revision, 1);
    assert.equal(store.problem, undefined);
    assert.equal(store.auditLog.size, 1);
    assert.deepEqual(recorder.revisions, [1]);
  });

  test('rejects with the failure, and not with a conflict with a change that was never written', async () => {
    const { driver, store } = await overlapping();
    const first = assert.rejects(store.commit({ put: [put('things', 'a')] }));
    await turn();
    const second = assert.rejects(
      store.commit({
        expect: [{ collection: 'things', name: 'a', at: 'absent' }],
        put: [put('things', 'a')],
      }),
      withErrorCode('HANSA_STORE_FULL'),
    );
    await turn();
    await driver.settle('full');
    await Promise.all([first, second]);
  });

  test('does not wait for ever, and what comes later is not planned on it', async () => {
    const { driver, store, first, second } = await twoInFlight();
    await driver.settle('full');
    await assert.rejects(first);
    const third = store.commit({ put: [put('things', 'b')] });
    await turn();
    assert.equal(driver.inFlight, 1, 'the third waits until the second has failed');
    await driver.settle('written');
    await assert.rejects(second);
    await driver.settleAll();
    assert.equal((await third).revision, 1);
  });

  test('keeps its place where the one ahead turns out to be written', async () => {
    const { driver, first, second } = await twoInFlight();
    await driver.settle('unknown, written');
    await driver.settle('written');
    assert.deepEqual([(await first).revision, (await second).revision], [1, 2]);
  });

  test('is not planned while the database does not tell whether the one ahead is written', async () => {
    const { clock, driver, store } = await overlapping();
    const first = assert.rejects(store.commit({ put: [put('things', 'a')] }));
    await turn();
    driver.silent = 2;
    await driver.settle('unknown, lost');
    const second = store.commit({ put: [put('things', 'b')] });
    await turn();
    assert.equal(driver.inFlight, 0);
    await clock.advance(1000);
    await first;
    assert.equal(driver.inFlight, 1);
    await driver.settleAll();
    assert.equal((await second).revision, 1);
  });

  test('leaves facts of the failed transaction to be written later', async () => {
    const { clock, database, driver, store } = await overlapping();
    store.facts.merge('things', 'a', { lastSeen: 1 });
    await clock.advance(1500);
    assert.equal(driver.inFlight, 1);
    const second = assert.rejects(store.commit({ put: [put('things', 'a')] }));
    await turn();
    await driver.settle('full');
    await driver.settle('written');
    await second;
    await clock.advance(1500);
    await driver.settleAll();
    assert.equal(database.facts.size, 1);
  });
});

test('random commits and failures: what is acknowledged is there, and nothing else ever shows', async () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ name: fc.nat(3), expects: fc.boolean() }) },
    { weight: 1, arbitrary: fc.constant('turn' as const) },
    { weight: 2, arbitrary: fc.constantFrom('written' as const, ...fates) },
    { weight: 1, arbitrary: fc.constant('compact' as const) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const { clock, database, driver, store } = await overlapping();
      const seen: number[] = [];
      store.watch('things', 0, {
        changes: (changes) => {
          for (const { revision, entry } of changes) {
            assert.ok(revision <= database.head.revision, 'a watcher sees only what is durable');
            assert.deepEqual(database.changes.get(revision)?.value, entry?.value);
            seen.push(revision);
          }
        },
        ended: () => {},
      });
      const acknowledged = new Map<number, string>();
      const waiting: Promise<void>[] = [];
      for (const [at, one] of steps.entries()) {
        if (one === 'turn') await turn();
        else if (one === 'compact') {
          waiting.push(store.compact(store.revision).catch(() => undefined));
        } else if (typeof one === 'string') await driver.settle(one);
        else {
          const name = `n${one.name}`;
          const expected = store.get('things', name)?.revision ?? 'absent';
          const commit = store.commit({
            expect: one.expects ? [{ collection: 'things', name, at: expected }] : [],
            put: [put('things', name, `step ${at}`)],
            audit: [audit(`step ${at}`)],
          });
          waiting.push(
            commit.then(
              ({ revision }) => void acknowledged.set(revision, `step ${at}`),
              () => undefined,
            ),
          );
        }
        assert.ok(store.revision <= database.head.revision);
      }
      await turn();
      await driver.settleAll();
      await Promise.all(waiting);
      const revisions = [...acknowledged.keys()].toSorted((one, other) => one - other);
      assert.deepEqual(
        revisions,
        Array.from({ length: store.revision }, (_, index) => index + 1),
      );
      assert.deepEqual(seen, revisions);
      assert.equal(database.head.revision, store.revision);
      assert.deepEqual(
        database.audit.map(({ body }) => body.toString()),
        revisions.map((revision) => acknowledged.get(revision)),
      );
      const again = await Replica.open(new MemoryDriver(database, clock), {
        clock,
        history: defaultHistoryLimits,
      });
      assert.deepEqual(again.list('things').entries, store.list('things').entries);
      for (const { revision, value } of again.list('things').entries) {
        assert.equal(acknowledged.get(revision), value.toString());
      }
      assert.deepEqual(again.auditLog.rootHash, store.auditLog.rootHash);
    }),
  );
});
