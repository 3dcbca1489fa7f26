import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { HansaError } from '../errors/error.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { changeSource, StoreSource, type StoreSourceOptions } from './source.ts';

async function harness(options: Partial<StoreSourceOptions> = {}) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const added: string[] = [];
  const ended: HansaError[] = [];
  const source = new StoreSource({ store, clock, collection: 'things', ...options });
  return {
    clock,
    store,
    ended,
    start: () =>
      source.start({ add: (key) => added.push(key), ended: (error) => ended.push(error) }),
    /** What was added since the last call. */
    added: () => added.splice(0),
  };
}

async function put(store: Store, name: string, value = '{}'): Promise<void> {
  await store.commit({
    put: [{ collection: 'things', name, encode: () => Buffer.from(value) }],
  });
}

describe('a source from the store', () => {
  test('adds what exists, then what is created, changed and deleted', async () => {
    const { clock, store, start, added } = await harness();
    await put(store, 'a');
    await put(store, 'b');
    const running = start();
    assert.deepEqual(added(), ['a', 'b']);
    await put(store, 'c');
    await clock.advance(0);
    assert.deepEqual(added(), ['c']);
    await store.commit({ delete: [{ collection: 'things', name: 'a' }] });
    await clock.advance(0);
    assert.deepEqual(added(), ['a']);
    running.stop();
    await put(store, 'd');
    await clock.advance(0);
    assert.deepEqual(added(), []);
  });

  test('adds the keys of the old and of the new version of what changed', async () => {
    const { clock, store, start, added } = await harness({
      keysOf: (entry) => [entry.value.toString()],
    });
    await put(store, 'a', 'owner-1');
    start();
    assert.deepEqual(added(), ['owner-1']);
    await put(store, 'a', 'owner-2');
    await clock.advance(0);
    assert.deepEqual(added(), ['owner-1', 'owner-2']);
  });

  test('adds all that it knows on a resync', async () => {
    const { clock, store, start, added } = await harness();
    await put(store, 'a');
    const running = start();
    await put(store, 'b');
    await clock.advance(0);
    added();
    running.resync();
    assert.deepEqual(added(), ['a', 'b']);
  });

  test('lists again where the watch cannot go on, and finds what was missed', async () => {
    const { clock, store, start, added } = await harness();
    await put(store, 'kept');
    await put(store, 'gone');
    await put(store, 'changed');
    // The first watch ends at once, as one that fell behind a compaction does.
    const watch = store.watch.bind(store);
    let failing = true;
    let expire: (() => void) | undefined;
    Object.defineProperty(store, 'watch', {
      value: (...[collection, after, watcher]: Parameters<Store['watch']>) => {
        if (!failing) return watch(collection, after, watcher);
        expire = () => watcher.ended(new HansaError('HANSA_EXPIRED', 'compacted'));
        return { stop: () => undefined };
      },
    });
    start();
    assert.deepEqual(added(), ['changed', 'gone', 'kept']);
    await store.commit({ delete: [{ collection: 'things', name: 'gone' }] });
    await put(store, 'changed', '{"v":2}');
    await put(store, 'new');
    failing = false;
    expire?.();
    await clock.advance(1000);
    assert.deepEqual(new Set(added()), new Set(['gone', 'changed', 'new']));
    await put(store, 'later');
    await clock.advance(0);
    assert.deepEqual(added(), ['later']);
  });

  test('tells when the store was closed', async () => {
    const { clock, store, start, ended } = await harness();
    start();
    await store.close();
    await clock.advance(0);
    assert.equal(ended.length, 1);
    assert.equal(ended[0]?.code, 'HANSA_UNAVAILABLE');
  });
});

test('a source of what tells that it changed adds its keys at the start and with every change', () => {
  const listeners = new Set<() => void>();
  const added: string[] = [];
  const source = changeSource(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    ['x509', 'jwt'],
  );
  const running = source.start({ add: (key) => added.push(key), ended: () => undefined });
  assert.deepEqual(added.splice(0), ['x509', 'jwt']);
  for (const changed of listeners) changed();
  assert.deepEqual(added.splice(0), ['x509', 'jwt']);
  running.stop();
  assert.equal(listeners.size, 0);
});
