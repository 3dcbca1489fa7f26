import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { VirtualClock } from '../clock/virtual.ts';
import { HansaError } from '../errors/error.ts';
import { openStore } from './open.ts';
import { kindReader, readSealed, recordReader, valueOf } from './reader.ts';
import type { Entry, Store } from './store.ts';

interface Boat {
  readonly name: string;
  readonly berth?: number;
}

const boats = recordReader<Boat>('test.boats');

async function storeWith(values: Readonly<Record<string, string>>): Promise<Store> {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  for (const [name, value] of Object.entries(values)) await put(store, name, value);
  return store;
}

async function put(store: Store, name: string, value: string): Promise<void> {
  await store.commit({
    put: [{ collection: 'test.boats', name, encode: () => Buffer.from(value) }],
  });
}

function entryOf(value: string | Buffer, collection = 'test.boats'): Entry {
  return { collection, name: 'kogge', revision: 1, value: Buffer.from(value) };
}

function refusal(action: () => unknown): HansaError {
  try {
    action();
  } catch (error) {
    if (error instanceof HansaError) return error;
    throw error;
  }
  throw new Error('it was read');
}

suite('a reader', () => {
  test('gives the value of a record, and undefined where there is none', async () => {
    const store = await storeWith({ kogge: '{"name":"kogge"}' });
    assert.deepEqual(boats.get(store, 'kogge'), { name: 'kogge' });
    assert.equal(boats.get(store, 'holk'), undefined);
  });

  test('lists values in order of names', async () => {
    const store = await storeWith({ b: '{"name":"b"}', a: '{"name":"a"}' });
    assert.deepEqual(
      boats.list(store).map(({ name }) => name),
      ['a', 'b'],
    );
  });

  test('shares one value between all readers of an entry', () => {
    const entry = entryOf('{"name":"kogge"}');
    assert.equal(recordReader('test.boats').of(entry), boats.of(entry));
    assert.equal(valueOf(entry), boats.of(entry));
  });

  test('gives the new value after a change', async () => {
    const store = await storeWith({ kogge: '{"name":"kogge","berth":1}' });
    assert.equal(boats.get(store, 'kogge')?.berth, 1);
    await put(store, 'kogge', '{"name":"kogge","berth":2}');
    assert.equal(boats.get(store, 'kogge')?.berth, 2);
  });

  test('keeps nothing of a deleted entry, also where it is read afterwards', async () => {
    const store = await storeWith({ kogge: '{"name":"kogge"}' });
    const entry = store.get('test.boats', 'kogge') as Entry;
    let computed = 0;
    const names = boats.derive(({ name }) => ({ name, computed: ++computed }));
    const [value, derived] = [boats.of(entry), names.of(entry)];
    assert.equal(boats.of(entry), value);
    assert.equal(names.of(entry), derived);
    await store.commit({ delete: [{ collection: 'test.boats', name: 'kogge' }] });
    for (let reads = 0; reads < 2; reads += 1) {
      assert.deepEqual(boats.of(entry), value);
      assert.notEqual(boats.of(entry), boats.of(entry));
      assert.notEqual(boats.once(entry), boats.once(entry));
      assert.notEqual(names.of(entry), names.of(entry));
    }
  });

  test('forgets the value of an entry that was replaced', async () => {
    const store = await storeWith({ kogge: '{"name":"kogge"}' });
    const before = store.get('test.boats', 'kogge') as Entry;
    const value = boats.of(before);
    await put(store, 'kogge', '{"name":"kogge","berth":2}');
    assert.notEqual(boats.once(before), value);
    assert.deepEqual(boats.once(before), value);
  });

  test('reads once without keeping, and takes what is kept', () => {
    const entry = entryOf('{"name":"kogge"}');
    assert.notEqual(boats.once(entry), boats.once(entry));
    assert.equal(boats.of(entry), boats.once(entry));
  });

  test('reads the collection of its kind', () => {
    assert.equal(kindReader(federationGrantKind).collection, 'federationgrants');
  });
});

suite('a derived reader', () => {
  test('computes once for each entry, also where the answer is undefined', () => {
    let computed = 0;
    const berths = boats.derive(({ berth }) => {
      computed += 1;
      return berth;
    });
    const entry = entryOf('{"name":"kogge"}');
    assert.equal(berths.of(entry), undefined);
    assert.equal(berths.of(entry), undefined);
    assert.equal(computed, 1);
    assert.equal(berths.of(entryOf('{"name":"kogge","berth":3}')), 3);
    assert.equal(computed, 2);
  });

  test('does not keep the value that it computed from', () => {
    const names = boats.derive(({ name }) => name);
    const entry = entryOf('{"name":"kogge"}');
    assert.equal(names.of(entry), 'kogge');
    assert.notEqual(boats.once(entry), boats.once(entry));
  });

  test('takes a value that the caller has read already', () => {
    const names = boats.derive(({ name }) => name);
    assert.equal(names.of(entryOf('no JSON'), { name: 'given' }), 'given');
  });

  test('can be derived from', () => {
    const lengths = boats.derive(({ name }) => name).derive((name) => name.length);
    assert.equal(lengths.of(entryOf('{"name":"kogge"}')), 5);
  });
});

suite('a damaged value', () => {
  for (const [what, value] of [
    ['is cut off', '{"name":"secret-kog'],
    ['is empty', ''],
    ['is null', 'null'],
    ['is a number', '7'],
    ['is no UTF-8', Buffer.of(0x7b, 0xff, 0x7d)],
  ] as const) {
    test(`that ${what} is refused on every path, and not quoted`, () => {
      const entry = entryOf(value);
      const names = boats.derive(({ name }) => name);
      for (const read of [
        () => boats.of(entry),
        () => boats.once(entry),
        () => names.of(entry),
        () => valueOf(entry),
      ]) {
        const { code, message, cause } = refusal(read);
        assert.equal(code, 'HANSA_STORE_CORRUPT');
        assert.match(message, /^Cannot read test\.boats\/kogge: /);
        assert.doesNotMatch(message, /secret/);
        assert.equal(cause, undefined);
      }
    });
  }

  test('does not keep other records from being read', async () => {
    const store = await storeWith({ a: '{"name":"a"}', b: '{' });
    assert.equal(boats.get(store, 'a')?.name, 'a');
    assert.equal(refusal(() => boats.list(store)).code, 'HANSA_STORE_CORRUPT');
  });
});

suite('a sealed record', () => {
  const place = { collection: 'trust.acme', key: 'kogge', column: 'value', version: 1 };
  const opening = (plain: Buffer) => ({ open: () => Promise.resolve(plain) });
  const sealed = entryOf('sealed', 'trust.acme');

  test('is read without keeping its plain bytes or its value', async () => {
    const plain = Buffer.from('{"key":"k"}');
    assert.deepEqual(await readSealed(opening(plain), place, sealed), { key: 'k' });
    assert.ok(plain.every((byte) => byte === 0));
    assert.equal(refusal(() => valueOf(sealed)).code, 'HANSA_STORE_CORRUPT');
  });

  test('that is damaged is refused without a word of it, and erased too', async () => {
    const plain = Buffer.from('secret');
    await assert.rejects(readSealed(opening(plain), place, sealed), (error: HansaError) => {
      assert.equal(error.code, 'HANSA_STORE_CORRUPT');
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
    assert.ok(plain.every((byte) => byte === 0));
  });
});
