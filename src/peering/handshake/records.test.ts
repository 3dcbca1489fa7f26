import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { withErrorCode } from '../../core/store/conformance/harness.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { type Kept, Records } from './records.ts';
import { recordReader } from '../../core/store/reader.ts';

interface Count {
  readonly count: number;
}

const collection = 'peering.counts';
const isConflict = withErrorCode('HANSA_CONFLICT');
let store: Store;
let records: Records<Count>;

beforeEach(async () => {
  store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  records = new Records(store, recordReader<Count>(collection));
});

const kept = (name = 'a'): Kept<Count> => {
  const found = records.get(name);
  assert.ok(found !== undefined);
  return found;
};
const add = ({ count }: Count): Count => ({ count: count + 1 });
const row = { encode: () => Buffer.from('{}') };

suite('a record', () => {
  test('is not there until it is put', async () => {
    assert.equal(records.get('a'), undefined);
    assert.deepEqual(records.list(), []);
    await records.put('a', undefined, { count: 1 });
    assert.deepEqual(kept().value, { count: 1 });
  });

  test('is listed with the others of its collection, by name', async () => {
    await records.put('b', undefined, { count: 2 });
    await records.put('a', undefined, { count: 1 });
    await new Records(store, recordReader<Count>('peering.others')).put('c', undefined, {
      count: 3,
    });
    assert.deepEqual(
      records.list().map(({ name, value }) => [name, value.count]),
      [
        ['a', 1],
        ['b', 2],
      ],
    );
  });

  test('is not made over one that is there', async () => {
    await records.put('a', undefined, { count: 1 });
    await assert.rejects(records.put('a', undefined, { count: 2 }), isConflict);
    assert.equal(kept().value.count, 1);
  });

  test('is not replaced by a writer that has seen an older one, or one that is gone', async () => {
    await records.put('a', undefined, { count: 1 });
    const old = kept();
    await records.put('a', old, { count: 2 });
    await assert.rejects(records.put('a', old, { count: 3 }), isConflict);
    await records.delete(kept());
    await assert.rejects(records.put('a', old, { count: 4 }), isConflict);
    assert.equal(records.get('a'), undefined);
  });

  test('is not deleted by a reader that has seen an older one, nor twice', async () => {
    await records.put('a', undefined, { count: 1 });
    const old = kept();
    await records.change('a', add);
    await assert.rejects(records.delete(old), isConflict);
    const now = kept();
    await records.delete(now);
    await assert.rejects(records.delete(now), isConflict);
  });

  test('is written together with its audit record, or neither is', async () => {
    await records.put('a', undefined, { count: 1 }, [row]);
    const { size } = store.auditLog;
    assert.equal(size, 1);
    await assert.rejects(records.put('a', undefined, { count: 2 }, [row]), isConflict);
    assert.equal(store.auditLog.size, size);
  });

  test('that is damaged is refused by its name, and not by its text', async () => {
    for (const text of ['{"count":', 'null', 'secret']) {
      const bytes = Buffer.from(text);
      await store.commit({ put: [{ collection, name: 'bad', encode: () => bytes }] });
      assert.throws(
        () => records.get('bad'),
        (error: unknown) => {
          assert.match(String(error), /peering\.counts.*bad/);
          assert.doesNotMatch(String(error), /secret/);
          return withErrorCode('HANSA_STORE_CORRUPT')(error);
        },
      );
    }
  });
});

suite('a change of a record', () => {
  test('is of the record as it is now', async () => {
    await records.put('a', undefined, { count: 1 });
    await records.change('a', add);
    assert.equal(kept().value.count, 2);
  });

  test('of many at once is lost for none', async () => {
    await records.put('a', undefined, { count: 0 });
    await Promise.all(Array.from({ length: 20 }, () => records.change('a', add)));
    assert.equal(kept().value.count, 20);
  });

  test('looks again where another was faster, and may then find nothing to do', async () => {
    await records.put('a', undefined, { count: 1 });
    const seen: number[] = [];
    let faster: Promise<void> | undefined;
    await records.change('a', ({ count }) => {
      seen.push(count);
      faster ??= records.put('a', kept(), { count: 7 });
      return count === 1 ? { count: 2 } : undefined;
    });
    await faster;
    assert.deepEqual(seen, [1, 7]);
    assert.equal(kept().value.count, 7);
  });

  test('ends where another has deleted the record meanwhile', async () => {
    await records.put('a', undefined, { count: 1 });
    let calls = 0;
    let faster: Promise<void> | undefined;
    await records.change('a', (value) => {
      calls += 1;
      faster ??= records.delete(kept());
      return add(value);
    });
    await faster;
    assert.equal(calls, 1);
    assert.equal(records.get('a'), undefined);
  });

  test('that changes nothing writes nothing, and one of a missing record is not asked for', async () => {
    await records.put('a', undefined, { count: 1 });
    const { revision } = kept();
    await records.change('a', () => undefined, [row]);
    assert.equal(kept().revision, revision);
    await records.change('none', () => assert.fail('there is no such record'));
    assert.equal(records.get('none'), undefined);
  });

  test('fails with what failed, where that is no race', async () => {
    await records.put('a', undefined, { count: 1 });
    await assert.rejects(
      records.change('a', () => {
        throw new RangeError('for the test');
      }),
      /for the test/,
    );
    await store.close();
    await assert.rejects(records.change('a', add));
  });
});
