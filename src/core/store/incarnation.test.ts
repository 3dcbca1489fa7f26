import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { SeededRandom } from '../clock/seeded-random.ts';
import { VirtualClock } from '../clock/virtual.ts';
import { incarnationOf } from './incarnation.ts';
import { MemoryDatabase } from './memory/driver.ts';
import { openStore } from './open.ts';

const open = (database: MemoryDatabase) =>
  openStore({ driver: 'memory', database }, { clock: new VirtualClock() });

suite('the incarnation of a store', () => {
  test('stays the same when the store is opened again', async () => {
    const database = new MemoryDatabase();
    const first = await incarnationOf(await open(database), new SeededRandom('a'));
    assert.equal(await incarnationOf(await open(database), new SeededRandom('b')), first);
  });

  test('is the same for two replicas that start at the same time', async () => {
    const database = new MemoryDatabase();
    const [one, two] = [await open(database), await open(database)];
    const [first, second] = await Promise.all([
      incarnationOf(one, new SeededRandom('a')),
      incarnationOf(two, new SeededRandom('b')),
    ]);
    assert.equal(first, second);
  });

  test('differs between two databases', async () => {
    const first = await incarnationOf(await open(new MemoryDatabase()), new SeededRandom('a'));
    const second = await incarnationOf(await open(new MemoryDatabase()), new SeededRandom('b'));
    assert.notEqual(first, second);
  });
});
