import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../../clock/virtual.ts';
import { audit, put, withErrorCode } from '../conformance/harness.ts';
import { defaultHistoryLimits } from '../current/history.ts';
import type { Base, Batch, FirstRows } from '../driver.ts';
import { MemoryDatabase, MemoryDriver } from '../memory/driver.ts';
import { Replica } from '../replica.ts';

/** Keeps what the store hands over first. */
class EagerDriver extends MemoryDriver {
  readonly handed: { readonly first: FirstRows | undefined; readonly batch: Batch }[] = [];

  override transact(build: (base: Base) => Batch | undefined): Promise<void> {
    return super.transact((base) => {
      let first: FirstRows | undefined;
      const batch = build({
        ...base,
        writeFirst: (rows) => {
          assert.equal(first, undefined, 'called twice');
          first = rows;
        },
      });
      if (batch !== undefined) this.handed.push({ first, batch });
      return batch;
    });
  }
}

async function eager() {
  const clock = new VirtualClock();
  const driver = new EagerDriver(new MemoryDatabase(), clock);
  const store = await Replica.open(driver, { clock, history: defaultHistoryLimits });
  return { driver, store };
}

suite('a driver that writes the first rows while the others are planned', () => {
  test('gets a third of many commits first, and they begin the batch', async () => {
    const { driver, store } = await eager();
    await Promise.all(
      Array.from({ length: 30 }, (_, at) =>
        store.commit({ put: [put('things', `n${at}`)], audit: [audit(`row ${at}`)] }),
      ),
    );
    const [{ first, batch } = assert.fail('no transaction')] = driver.handed;
    assert.deepEqual([first?.changes.length, batch.changes.length], [10, 30]);
    assert.deepEqual(first?.changes, batch.changes.slice(0, 10));
    assert.deepEqual(first?.audit, batch.audit.slice(0, 10));
  });

  test('gets nothing first of a commit that was refused', async () => {
    const { driver, store } = await eager();
    const commits = Array.from({ length: 30 }, (_, at) =>
      store.commit({
        ...(at % 2 === 0 && { expect: [{ collection: 'things', name: 'none', at: 7 }] }),
        put: [put('things', `n${at}`)],
      }),
    );
    for (const [at, commit] of commits.entries()) {
      if (at % 2 === 0) await assert.rejects(commit, withErrorCode('HANSA_CONFLICT'));
      else await commit;
    }
    const [{ first } = assert.fail('no transaction')] = driver.handed;
    assert.deepEqual(
      first?.changes.map(({ name }) => name),
      ['n1', 'n3', 'n5', 'n7', 'n9'],
    );
  });

  test('gets the whole batch at once where there are few commits', async () => {
    const { driver, store } = await eager();
    await Promise.all(
      Array.from({ length: 11 }, (_, at) => store.commit({ put: [put('things', `n${at}`)] })),
    );
    assert.deepEqual(
      driver.handed.map(({ first, batch }) => [first, batch.changes.length]),
      [[undefined, 11]],
    );
  });
});
