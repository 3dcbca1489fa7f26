// The parts of the store that only show with a driver that fails, or that others write to.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { HansaError } from '../errors/error.ts';
import { MetricsRegistry } from '../metrics/registry.ts';
import { audit, put, Recorder, turn, withErrorCode } from './conformance/harness.ts';
import type { Base, Batch } from './driver.ts';
import { TransactionFailed } from './driver.ts';
import { defaultHistoryLimits } from './current/history.ts';
import { MemoryDatabase, MemoryDriver } from './memory/driver.ts';
import { openStore } from './open.ts';
import { Replica } from './replica.ts';

const full = new HansaError('HANSA_STORE_FULL', 'the disk is full');

/** A real driver on a disk with moods. */
class MoodyDriver extends MemoryDriver {
  fail: 'never' | 'before' | 'unknown, not written' | 'unknown, written' = 'never';
  /** How often `holds` fails before it answers. */
  silent = 0;

  override async transact(build: (base: Base) => Batch | undefined): Promise<void> {
    if (this.fail === 'never') return super.transact(build);
    let built: Batch | undefined;
    await super.transact((base) => {
      built = build(base);
      return this.fail === 'unknown, written' ? built : undefined;
    });
    if (built === undefined) return;
    throw new TransactionFailed(full, this.fail === 'before' ? 'none' : 'unknown');
  }

  override async holds(batch: Batch): Promise<boolean> {
    if (this.silent-- > 0) throw new Error('the database does not answer');
    return super.holds(batch);
  }
}

async function moody() {
  const clock = new VirtualClock();
  const database = new MemoryDatabase();
  const driver = new MoodyDriver(database, clock);
  const store = await Replica.open(driver, { clock, history: defaultHistoryLimits });
  return { clock, database, driver, store };
}

describe('a store whose disk is full', () => {
  test('rejects the whole batch, changes nothing, and goes on when there is space', async () => {
    const { driver, store } = await moody();
    await store.commit({ put: [put('things', 'a', 'old')], audit: [audit('one')] });
    const root = store.auditLog.rootHash;
    const recorder = new Recorder();
    store.watch('things', 1, recorder);
    driver.fail = 'before';
    const outcomes = await Promise.allSettled([
      store.commit({ put: [put('things', 'a', 'new')], audit: [audit('two')] }),
      store.commit({ delete: [{ collection: 'things', name: 'a' }] }),
      store.leases.acquire('work', 'one', 1000),
      store.compact(1),
    ]);
    for (const outcome of outcomes) {
      assert.ok(outcome.status === 'rejected');
      withErrorCode('HANSA_STORE_FULL')(outcome.reason);
    }
    assert.equal(store.revision, 1);
    assert.equal(store.compactedRevision, 0);
    assert.equal(store.get('things', 'a')?.value.toString(), 'old');
    assert.deepEqual(store.auditLog.rootHash, root);
    driver.fail = 'never';
    const committed = await store.commit({ put: [put('things', 'a', 'newer')] });
    assert.equal(committed.revision, 2);
    assert.equal((await store.leases.acquire('work', 'one', 1000))?.epoch, 1);
    assert.deepEqual(recorder.revisions, [2]);
  });

  test('keeps facts and writes them later', async () => {
    const { clock, database, driver, store } = await moody();
    store.facts.merge('peers', 'a', { lastSeen: 1 });
    driver.fail = 'before';
    await clock.advance(1500);
    assert.equal(database.facts.size, 0);
    driver.fail = 'never';
    await clock.advance(1500);
    assert.equal(database.facts.size, 1);
  });
});

describe('a store that cannot tell whether a transaction was written', () => {
  test('asks the database until it answers, and resolves what is there', async () => {
    const { clock, driver, store } = await moody();
    driver.fail = 'unknown, written';
    driver.silent = 3;
    let settled = false;
    const commit = store.commit({ put: [put('things', 'a')] }).finally(() => {
      settled = true;
    });
    await clock.advance(500);
    assert.equal(settled, false);
    driver.fail = 'never';
    await clock.advance(500);
    assert.equal((await commit).revision, 1);
    assert.equal(store.get('things', 'a')?.revision, 1);
    assert.equal((await store.commit({ put: [put('things', 'b')] })).revision, 2);
  });

  test('rejects what is not there', async () => {
    const { driver, store } = await moody();
    driver.fail = 'unknown, not written';
    await assert.rejects(
      store.commit({ put: [put('things', 'a')] }),
      withErrorCode('HANSA_STORE_FULL'),
    );
    driver.fail = 'never';
    assert.equal(store.get('things', 'a'), undefined);
    assert.equal((await store.commit({ put: [put('things', 'b')] })).revision, 1);
  });

  test('can still be closed', async () => {
    const { clock, driver, store } = await moody();
    driver.fail = 'unknown, not written';
    driver.silent = Number.POSITIVE_INFINITY;
    const commit = assert.rejects(store.commit({ put: [put('things', 'a')] }));
    const closed = store.close();
    await clock.advance(10_000);
    await Promise.all([commit, closed]);
  });
});

describe('a store that is asked for too much at once', () => {
  test('refuses what is beyond its queue and finishes the rest', async () => {
    const { store } = await moody();
    const all = await Promise.allSettled(
      Array.from({ length: 17_000 }, (_, at) => store.commit({ put: [put('things', `n${at}`)] })),
    );
    const refused = all.filter((outcome) => outcome.status === 'rejected');
    assert.equal(refused.length, 17_000 - 16_384);
    for (const { reason } of refused) withErrorCode('HANSA_TOO_MANY_REQUESTS')(reason);
    assert.equal(store.count('things'), 16_384);
  });
});

describe('what the store keeps of a value', () => {
  test('is the value, not the large block that it was cut from', async () => {
    const { store } = await moody();
    const block = Buffer.alloc(1024 * 1024);
    const encode = () => block.subarray(10, 20);
    const { entries } = await store.commit({ put: [{ collection: 'things', name: 'a', encode }] });
    assert.deepEqual(entries[0]?.value, Buffer.alloc(10));
    assert.ok((entries[0]?.value.buffer.byteLength ?? 0) <= Buffer.poolSize);
  });
});

describe('facts', () => {
  test('are written about once a second, however often they change', async () => {
    const { clock, database, store } = await moody();
    for (let at = 0; at < 100; at++) {
      store.facts.merge('peers', 'a', { at });
      await clock.advance(50);
    }
    assert.ok(database.head.sequence <= 6, `${database.head.sequence} transactions`);
    await clock.advance(1000);
    assert.equal(database.facts.values().next().value?.value, '{"at":99}');
  });
});

describe('replicas on one database', () => {
  test('decide each batch on what the others committed, and tell their watchers of it', async () => {
    const clock = new VirtualClock();
    const database = new MemoryDatabase();
    const one = await openStore({ driver: 'memory', database }, { clock });
    const two = await openStore({ driver: 'memory', database }, { clock });
    const recorder = new Recorder();
    two.watch('things', 0, recorder);
    await one.commit({ put: [put('things', 'a'), put('things', 'b')], audit: [audit('one')] });
    await one.leases.acquire('work', 'one', 1000);
    await assert.rejects(
      two.commit({
        expect: [{ collection: 'things', name: 'a', at: 'absent' }],
        put: [put('things', 'a')],
      }),
      withErrorCode('HANSA_CONFLICT'),
    );
    assert.equal(await two.leases.acquire('work', 'two', 1000), undefined);
    const committed = await two.commit({
      delete: [{ collection: 'things', name: 'a' }],
      audit: [audit('two')],
    });
    await turn();
    assert.equal(committed.revision, 3);
    assert.deepEqual(recorder.revisions, [1, 2, 3]);
    await one.commit({ audit: [audit('three')] });
    assert.equal(one.revision, 3);
    assert.equal(one.get('things', 'a'), undefined);
    assert.equal(one.auditLog.size, 3);
  });
});

describe('the metrics of a store', () => {
  test('count commits by result, and measure how long they took', async () => {
    const metrics = new MetricsRegistry();
    const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock(), metrics });
    await store.commit({ put: [put('things', 'a')], audit: [audit('one')] });
    const expect = [{ collection: 'things', name: 'a', at: 'absent' as const }];
    await assert.rejects(store.commit({ expect }));
    const text = metrics.expose();
    for (const line of [
      'hansa_store_commits_total{result="ok"} 1',
      'hansa_store_commits_total{result="HANSA_CONFLICT"} 1',
      'hansa_store_commit_duration_seconds_count 1',
      'hansa_store_batch_commits_count 1',
      'hansa_store_changes_total 1',
      'hansa_store_revision 1',
      'hansa_store_records 1',
      'hansa_audit_rows 1',
    ]) {
      assert.ok(text.split('\n').includes(line), `${line} is missing in\n${text}`);
    }
  });
});
