import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { mostPerTurn } from './test-most-per-turn.ts';
import { WorkTurns, workMs } from './work-turns.ts';

/** Time that passes only with work. */
function scene() {
  let nowMs = 0;
  const work = new WorkTurns({ monotonic: () => nowMs });
  const step = async (ms: number): Promise<void> => {
    nowMs += ms;
  };
  return { work, step };
}

suite('the work of all callers', () => {
  test('stays within one budget per turn of the event loop', async () => {
    const { work, step } = scene();
    const counted = { count: 0 };
    const batch = async (source: string): Promise<void> => {
      for (let at = 0; at < 20; at++) {
        await work.run(source, async () => {
          counted.count++;
          await step(1);
        });
      }
    };
    const start = () =>
      Promise.all(Array.from({ length: 100 }, (_, at) => batch(`agent-${at % 30}`)));
    assert.equal(await mostPerTurn(start, counted), workMs);
    assert.equal(counted.count, 2000);
  });

  test('uses the whole budget, also where only one batch works', async () => {
    const { work, step } = scene();
    const counted = { count: 0 };
    const batch = async (): Promise<void> => {
      for (let at = 0; at < 50; at++) {
        await work.run('one', async () => {
          counted.count++;
          await step(1);
        });
      }
    };
    assert.equal(await mostPerTurn(batch, counted), workMs);
  });

  test('starts no new budget where one batch ends and the next begins', async () => {
    const { work, step } = scene();
    const counted = { count: 0 };
    const all = async (): Promise<void> => {
      for (let at = 0; at < 40; at++) {
        await work.run(`agent-${at}`, async () => {
          counted.count++;
          await step(2);
        });
        for (let pause = 0; pause < 20; pause++) await Promise.resolve();
      }
    };
    assert.ok((await mostPerTurn(all, counted)) <= 3);
  });

  test('gives agents turns, so that one with many requests delays only itself', async () => {
    const { work, step } = scene();
    const order: string[] = [];
    const run = (source: string): Promise<void> =>
      work.run(source, () => {
        order.push(source);
        return step(1);
      });
    const many = Array.from({ length: 100 }, () => run('greedy'));
    await Promise.all([...many, run('a'), run('b')]);
    assert.equal(order.length, 102);
    assert.ok(order.indexOf('a') < 5 && order.indexOf('b') < 5, order.slice(0, 6).join());
  });

  test('goes on while a step waits for a thread, and after a step that fails', async () => {
    const { work, step } = scene();
    const thread = Promise.withResolvers<string>();
    const slow = work.run('slow', () => thread.promise);
    await assert.rejects(
      work.run('bad', () => Promise.reject(new Error('broken'))),
      /broken/,
    );
    await work.run('quick', () => step(1));
    thread.resolve('ready');
    assert.equal(await slow, 'ready');
  });
});
