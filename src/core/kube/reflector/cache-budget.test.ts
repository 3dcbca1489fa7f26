import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ModelServer } from '../../../../test/fakes/memory-kube/model-server.ts';
import { cached, reflect, stored } from '../../../../test/fakes/memory-kube/reflected-model.ts';
import { CacheBudget } from './cache-budget.ts';
import { costOf } from './object-cost.ts';

const empty = { objects: 0, bytes: 0, values: 0 };

function serverWith(count: number): ModelServer {
  const server = new ModelServer();
  for (let at = 0; at < count; at++) server.put(`o-${at}`);
  return server;
}

suite('a budget of several reflectors', () => {
  for (const usesInitialEvents of [true, false]) {
    test(`covers what they hold together (${usesInitialEvents})`, async () => {
      const budget = new CacheBudget({ maxObjects: 15, maxBytes: 1e9, maxValues: 1e9 });
      const one = reflect(serverWith(10), { budget, usesInitialEvents });
      await one.clock.advance(0);
      const two = reflect(serverWith(10), { budget, usesInitialEvents });
      await two.clock.advance(0);
      assert.deepEqual([one.failures, two.failures], [[], ['over-limit']]);
      assert.match(two.reflector.status().failure?.message ?? '', /all collections/);
      assert.equal(budget.used.objects, 10, 'what could not be kept does not count');
      one.release();
      assert.deepEqual(budget.used, empty);
      await two.clock.advance(600_000);
      assert.deepEqual(cached(two.reflector), stored(two.server));
      assert.equal(budget.used.objects, 10);
    });

    test(`is exceeded by changes too, and given back with what is deleted (${usesInitialEvents})`, async () => {
      const budget = new CacheBudget({ maxObjects: 11, maxBytes: 1e9, maxValues: 1e9 });
      const { server, clock, failures, reflector, release } = reflect(serverWith(10), {
        budget,
        usesInitialEvents,
      });
      await clock.advance(0);
      server.put('more');
      await clock.advance(0);
      assert.deepEqual(failures, []);
      server.put('most');
      await clock.advance(0);
      assert.deepEqual(failures, ['over-limit']);
      for (let at = 0; at < 10; at++) server.remove(`o-${at}`);
      await clock.advance(600_000);
      assert.deepEqual(cached(reflector), stored(server));
      const { bytes, ...rest } = budget.used;
      assert.deepEqual([rest.objects, bytes], [2, reflector.status().bytes]);
      release();
      assert.deepEqual(budget.used, empty);
    });
  }

  test('is not held by a reflector that was stopped in the middle of a list', async () => {
    const budget = new CacheBudget({ maxObjects: 100, maxBytes: 1e9, maxValues: 1e9 });
    const { clock, release } = reflect(serverWith(10), { budget });
    release();
    await clock.advance(1000);
    assert.deepEqual(budget.used, empty);
  });
});

test('the cost of an object is about its size, and counts each field and item', () => {
  const { bytes: least, values: none } = costOf({});
  const object = { a: 'x'.repeat(1000), b: [1, null, true, { c: {} }], ['__proto__']: 'y' };
  const { bytes, values } = costOf(object);
  assert.equal(values - none, 11);
  assert.ok(Math.abs(bytes - least - JSON.stringify(object).length) < 40);
});
