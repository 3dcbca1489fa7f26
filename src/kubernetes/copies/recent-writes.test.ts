import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { Written } from '../fencing/fenced-writer.ts';
import { RecentWrites } from './recent-writes.ts';

const object = (resourceVersion: string, uid = 'u'): Written => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'b', namespace: 'a', uid, resourceVersion },
});

function scene(cached?: Written) {
  const clock = new VirtualClock();
  const cache = { object: cached };
  const unheard: unknown[] = [];
  const recent = new RecentWrites<Written>(
    clock,
    () => cache.object,
    (key, written) => unheard.push([key, written.metadata.resourceVersion]),
  );
  const hear = (now: Written | undefined): boolean => {
    const old = cache.object;
    cache.object = now;
    return recent.isEcho({ key: 'a/b', old, new: now });
  };
  return { clock, recent, hear, unheard };
}

describe('recent writes', () => {
  test('are newer than the cache until it hears of them, and that is an echo', () => {
    const { recent, hear } = scene(object('9'));
    recent.wrote('a/b', object('10'), object('9'));
    assert.deepEqual(recent.live('a/b'), object('10'));
    assert.equal(hear(object('10')), true);
    assert.deepEqual(recent.live('a/b'), object('10'));
    assert.equal(hear(object('11')), false);
  });

  test('are no echo of changes that they built on and the cache did not show', () => {
    for (const events of [['10', '11'], ['11']]) {
      const { recent, hear } = scene(object('9'));
      recent.wrote('a/b', object('11'), object('10'));
      assert.equal(hear(object(events[0] ?? '')), false, events.join());
      assert.deepEqual(recent.live('a/b'), object('11'));
    }
  });

  test('are no echo where another write came after them', () => {
    const { recent, hear } = scene(object('9'));
    recent.wrote('a/b', object('10'), object('9'));
    assert.equal(hear(object('12')), false);
    assert.deepEqual(recent.live('a/b'), object('12'));
  });

  test('count for nothing where the cache heard of them before the answer', () => {
    const { recent, hear } = scene(object('9'));
    assert.equal(hear(object('10')), false);
    recent.wrote('a/b', object('10'), object('9'));
    assert.equal(hear(undefined), false);
    assert.equal(recent.live('a/b'), undefined);
  });

  test('hide a deleted object, its mark and its end, but not another of that name', () => {
    const { recent, hear } = scene(object('9'));
    recent.deletes('a/b', object('9'));
    assert.equal(recent.live('a/b'), undefined);
    assert.equal(hear(object('10')), true);
    assert.equal(recent.live('a/b'), undefined);
    assert.equal(hear(undefined), true);
    assert.equal(hear(object('12', 'other')), false);
    assert.deepEqual(recent.live('a/b'), object('12', 'other'));
  });

  test('are forgotten where the version of an object goes back, because etcd was restored', () => {
    for (const restored of ['999', '5']) {
      const { recent, hear } = scene(object('999'));
      recent.wrote('a/b', object('1000'), object('999'));
      assert.equal(hear(object(restored)), false);
      assert.deepEqual(recent.live('a/b'), object(restored));
    }
  });

  test('are forgotten after ten seconds, because etcd may have been restored', async () => {
    const { clock, recent, hear } = scene();
    recent.wrote('a/b', object('1000'), undefined);
    hear(object('5'));
    assert.deepEqual(recent.live('a/b'), object('1000'));
    await clock.advance(10_000);
    assert.deepEqual(recent.live('a/b'), object('5'));
    assert.equal(hear(object('6')), false);
  });

  test('are forgotten after a write that failed', () => {
    const { recent } = scene(object('9'));
    recent.deletes('a/b', object('9'));
    recent.forget('a/b');
    assert.deepEqual(recent.live('a/b'), object('9'));
  });

  test('that the cache did not hear of in time are reported once', async () => {
    const { clock, recent, hear, unheard } = scene();
    recent.wrote('a/b', object('10'), undefined);
    await clock.advance(9_999);
    assert.deepEqual(unheard, []);
    await clock.advance(1);
    assert.deepEqual(unheard, [['a/b', '10']]);
    assert.equal(recent.live('a/b'), undefined);
    assert.equal(hear(object('10')), false);
    await clock.advance(20_000);
    assert.equal(unheard.length, 1);
  });

  test('that the cache heard of are not reported', async () => {
    const { clock, recent, hear, unheard } = scene();
    recent.wrote('a/b', object('10'), undefined);
    hear(object('10'));
    recent.wrote('a/b', object('11'), object('10'));
    recent.forget('a/b');
    await clock.advance(20_000);
    assert.deepEqual(unheard, []);
  });

  test('that are deletions are reported too, and a later write counts from its own time', async () => {
    const { clock, recent, unheard } = scene(object('9'));
    recent.wrote('a/b', object('10'), object('9'));
    await clock.advance(6000);
    recent.deletes('a/b', object('10'));
    await clock.advance(6000);
    assert.deepEqual(unheard, []);
    await clock.advance(4000);
    assert.deepEqual(unheard, [['a/b', '10']]);
    assert.deepEqual(recent.live('a/b'), object('9'));
  });

  test('are not reported after the end of the term', async () => {
    const { clock, recent, unheard } = scene();
    recent.wrote('a/b', object('10'), undefined);
    recent.stop();
    recent.wrote('a/c', object('11'), undefined);
    await clock.advance(20_000);
    assert.deepEqual(unheard, []);
  });
});
