// The writer's thread ends while transactions overlap: what was acknowledged is there, and what was
// rejected is not, in memory and after the store is opened again.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { systemClock } from '../../clock/system.ts';
import { hasCode } from '../../errors/error.ts';
import { audit, put } from '../conformance/harness.ts';
import { defaultHistoryLimits } from '../current/history.ts';
import type { Base, Batch } from '../driver.ts';
import { Replica } from '../replica.ts';
import { SqliteDriver } from './driver.ts';

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hansa-thread-'));
  path = join(folder, 'store.db');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Transactions overlap however long COMMIT takes. */
class OverlappingDriver extends SqliteDriver {
  mostInFlight = 0;
  #inFlight = 0;

  override async transact(build: (base: Base) => Batch | undefined): Promise<void> {
    this.mostInFlight = Math.max(this.mostInFlight, ++this.#inFlight);
    try {
      await super.transact(build);
    } finally {
      this.#inFlight--;
    }
  }
}

function overlapping(): OverlappingDriver {
  return new OverlappingDriver(path, systemClock, Infinity);
}

function open(driver = overlapping()): Promise<Replica> {
  return Replica.open(driver, { clock: systemClock, history: defaultHistoryLimits });
}

/** Returns what ends the thread that was asked last, and resolves when it has ended. */
function killer(t: TestContext): () => Promise<void> {
  const { mock } = t.mock.method(Worker.prototype, 'postMessage');
  return async () => {
    const worker = mock.calls.at(-1)?.this as Worker | undefined;
    await worker?.terminate();
  };
}

interface Outcome {
  readonly acknowledged: string[];
  readonly rejected: string[];
}

/** Commits in several turns, so that they are in several transactions, and the thread ends at one of them. */
async function commitWhile(
  store: Replica,
  round: number,
  kill: () => Promise<void>,
): Promise<Outcome> {
  const outcome: Outcome = { acknowledged: [], rejected: [] };
  const waiting: Promise<void>[] = [];
  const killAt = (round * 3) % 8;
  for (let turn = 0; turn < 8; turn++) {
    for (const part of ['a', 'b']) {
      const name = `${round}-${turn}-${part}`;
      waiting.push(
        store.commit({ put: [put('things', name)], audit: [audit(name)] }).then(
          () => void outcome.acknowledged.push(name),
          () => void outcome.rejected.push(name),
        ),
      );
    }
    await (turn % 3 === 0 ? nextTurn() : Promise.resolve());
    if (turn === killAt) waiting.push(kill());
  }
  await Promise.all(waiting);
  return outcome;
}

async function namesIn(store: Replica): Promise<{ records: string[]; rows: string[] }> {
  const rows = await store.auditLog.read(0, store.auditLog.size);
  return {
    records: store.list('things').entries.map(({ name }) => name),
    rows: rows.map((row) => row.toString()).toSorted(),
  };
}

describe('the end of the thread while two transactions are in flight', () => {
  test('loses nothing that was acknowledged, and keeps nothing that was rejected', async (t) => {
    const kill = killer(t);
    const driver = overlapping();
    const store = await open(driver);
    const acknowledged: string[] = [];
    const rejected: string[] = [];
    for (let round = 0; round < 10; round++) {
      const outcome = await commitWhile(store, round, kill);
      acknowledged.push(...outcome.acknowledged);
      rejected.push(...outcome.rejected);
    }
    assert.equal(driver.mostInFlight, 2);
    assert.ok(rejected.length > 0, 'some were in flight when the thread ended');
    const expected = acknowledged.toSorted();
    const before = await namesIn(store);
    assert.deepEqual(before.records, expected);
    assert.deepEqual(before.rows, expected);
    const { revision } = store;
    await store.close();
    t.mock.restoreAll();
    const again = await open();
    assert.equal(again.revision, revision);
    assert.deepEqual(await namesIn(again), before);
    await again.close();
  });

  test('and of the store leaves all or nothing of each commit, and close does not hang', async (t) => {
    const kill = killer(t);
    for (let round = 0; round < 2; round++) {
      const store = await open();
      const { acknowledged } = await commitWhile(store, round, kill);
      const last = store.commit({ put: [put('things', `last-${round}`)] });
      await Promise.all([kill(), store.close(), last.catch(() => undefined)]);
      const again = await open();
      const { records } = await namesIn(again);
      assert.deepEqual(
        acknowledged.filter((name) => !records.includes(name)),
        [],
      );
      await again.close();
    }
  });
});

describe('a thread that ended and a database that cannot be opened again', () => {
  test('reject what waits, and the store closes', async (t) => {
    const kill = killer(t);
    const store = await open();
    await store.commit({ put: [put('things', 'a')] });
    await kill();
    await rm(path);
    await writeFile(path, 'this is not a database'.repeat(1000));
    await assert.rejects(
      store.commit({ put: [put('things', 'b')] }),
      (error) => hasCode(error, 'HANSA_STORE_CORRUPT') || hasCode(error, 'HANSA_UNAVAILABLE'),
    );
    await assert.rejects(store.commit({ put: [put('things', 'c')] }));
    assert.equal(store.get('things', 'a')?.name, 'a');
    await store.close();
  });
});
