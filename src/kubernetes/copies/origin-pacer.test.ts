import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { sleep } from '../../core/clock/clock.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { KeyQueue } from '../../core/reconcile/queue.ts';
import { OriginPacer, Paced } from './origin-pacer.ts';

const parallelism = 16;

function pacerOf() {
  const clock = new VirtualClock();
  const added: string[] = [];
  const pacer = new OriginPacer({ clock, parallelism, add: (key) => void added.push(key) });
  /** Whether a run that ends at once may write. */
  const writes = (key: string, ...origins: string[]): boolean => {
    const run = pacer.begin(key);
    try {
      run.write(origins);
      return true;
    } catch (error) {
      assert.ok(error instanceof Paced);
      return false;
    } finally {
      run.end();
    }
  };
  return { clock, added, pacer, writes };
}

describe('the pace of writes', () => {
  test('is free for a burst, then parks keys and adds them again at the rate', async () => {
    const { clock, added, pacer, writes } = pacerOf();
    for (let at = 0; at < 1000; at++) assert.ok(writes(`key-${at}`, 'a'));
    for (const key of ['one', 'two', 'one']) assert.equal(writes(key, 'a'), false);
    assert.equal(pacer.parked, 2);
    await clock.advance(1000);
    assert.deepEqual(added, ['one', 'two']);
    assert.ok(writes('one', 'a') && writes('two', 'a'));
    assert.equal(pacer.parked, 0);
  });

  test('of one cluster does not depend on that of another', () => {
    const { writes } = pacerOf();
    for (let at = 0; at < 1000; at++) writes(`key-${at}`, 'a');
    assert.equal(writes('more', 'a'), false);
    assert.equal(writes('other', 'b'), true);
    assert.equal(writes('shared', 'a', 'b'), true, 'one cause with room is enough');
  });

  test('leaves half of the runs to others, also while none of them writes', () => {
    const { pacer } = pacerOf();
    const runs = Array.from({ length: parallelism / 2 }, (_, at) => pacer.begin(`key-${at}`));
    for (const run of runs) run.write(['a']);
    const more = pacer.begin('more');
    assert.throws(() => more.write(['a']), Paced);
    more.end();
    pacer.begin('other').write(['b']);
    runs[0]?.end();
  });

  test('gives a place back that a run did not use', async () => {
    const { clock, added, pacer, writes } = pacerOf();
    for (let at = 0; at < 1000; at++) writes(`key-${at}`, 'a');
    writes('one', 'a');
    await clock.advance(100);
    assert.deepEqual(added, ['one']);
    pacer.begin('one').end();
    for (let at = 0; at < 40; at++) assert.ok(writes(`key-${at}`, 'a'), `write ${at}`);
  });

  test('keeps the place of a key that changes while it waits', async () => {
    const { clock, added, pacer, writes } = pacerOf();
    for (let at = 0; at < 1000; at++) writes(`key-${at}`, 'a');
    for (const key of ['one', 'two']) writes(key, 'a');
    const run = pacer.begin('one');
    assert.equal(run.isParked, true);
    run.stay();
    run.end();
    assert.equal(pacer.parked, 2);
    await clock.advance(100);
    assert.deepEqual(added, ['one', 'two']);
  });

  test('lets deletions pass, and counts them', () => {
    const { pacer, writes } = pacerOf();
    const run = pacer.begin('one');
    for (let at = 0; at < 1500; at++) run.deletes('a');
    run.end();
    assert.equal(writes('two', 'a'), false);
  });

  test('ends: each key writes after its last change, and no cluster exceeds its rate', async () => {
    const step = fc.record({
      origin: fc.constantFrom('a', 'b', 'c'),
      key: fc.nat(40),
      times: fc.constantFrom(1, 5, 200),
      waitMs: fc.constantFrom(0, 1, 30),
    });
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.array(step, { maxLength: 60 }), async (seed, steps) => {
        const clock = new VirtualClock();
        const random = new SeededRandom(seed);
        const isDue = new Set<string>();
        const written = new Map<string, number>();
        let running = 0;
        const pacer = new OriginPacer({ clock, parallelism, add: (key) => queue.add(key) });
        const queue = new KeyQueue({
          clock,
          random,
          parallelism,
          work: async (key) => {
            const [origin = ''] = key.split('/');
            const run = pacer.begin(key);
            try {
              if (!isDue.has(key)) return;
              run.write([origin]);
              isDue.delete(key);
              running++;
              assert.ok(running <= parallelism);
              written.set(origin, (written.get(origin) ?? 0) + 1);
              await sleep(clock, random.unit() * 20);
              running--;
            } catch (error) {
              assert.ok(error instanceof Paced);
            } finally {
              run.end();
            }
          },
        });
        for (const { origin, key, times, waitMs } of steps) {
          for (let at = 0; at < times; at++) {
            const name = `${origin}/${key + at}`;
            isDue.add(name);
            queue.add(name);
          }
          await clock.advance(waitMs);
          for (const count of written.values()) {
            assert.ok(count <= 1000 + 0.5 * clock.monotonic() + 1);
          }
        }
        await clock.advance(60_000);
        assert.deepEqual([...isDue], []);
        assert.equal(pacer.parked, 0);
        assert.equal(running, 0);
        pacer.stop();
      }),
      { numRuns: 50 },
    );
  });
});
