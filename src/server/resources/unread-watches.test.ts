import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { settle, VirtualClock } from '../../core/clock/virtual.ts';
import { UnreadWatches } from './unread-watches.ts';

const limits = { withinMs: 60_000, maxBytes: 1000 };

function scene() {
  const clock = new VirtualClock();
  const unread = new UnreadWatches(clock, limits);
  const cut: string[] = [];
  const watch = (name: string) => ({ cutOff: () => void cut.push(name) });
  return { clock, unread, cut, watch };
}

async function pass(clock: VirtualClock, ms: number): Promise<void> {
  await clock.advance(ms);
  await settle();
}

suite('unread watches', () => {
  test('count what waits, and nothing once it is read', () => {
    const { unread, watch } = scene();
    const [a, b] = [watch('a'), watch('b')];
    unread.hold(a, 100);
    unread.hold(b, 200);
    unread.grow(a, 50);
    assert.equal(unread.bytes, 350);
    unread.release(a);
    unread.release(a);
    unread.release(b);
    unread.grow(b, 50);
    assert.equal(unread.bytes, 0);
  });

  test('are cut off when they have not read within the deadline, each by its own', async () => {
    const { clock, unread, cut, watch } = scene();
    unread.hold(watch('a'), 1);
    await pass(clock, 30_000);
    unread.hold(watch('b'), 1);
    await pass(clock, 30_000);
    assert.deepEqual(cut, ['a']);
    await pass(clock, 30_000);
    assert.deepEqual(cut, ['a', 'b']);
    assert.equal(unread.bytes, 0);
  });

  test('are not cut off while they read something within each deadline', async () => {
    const { clock, unread, cut, watch } = scene();
    const slow = watch('slow');
    for (let chunk = 0; chunk < 10; chunk += 1) {
      unread.hold(slow, 100);
      await pass(clock, 59_000);
      unread.release(slow);
    }
    await pass(clock, 120_000);
    assert.deepEqual(cut, []);
  });

  test('beyond the budget, those that wait longest are cut off, and no more than needed', () => {
    const { unread, cut, watch } = scene();
    const [a, b, c] = [watch('a'), watch('b'), watch('c')];
    unread.hold(a, 400);
    unread.hold(b, 400);
    // It has read once more since, so it no longer waits longest.
    unread.hold(a, 400);
    unread.hold(c, 400);
    assert.deepEqual(cut, ['b']);
    unread.grow(c, 300);
    assert.deepEqual(cut, ['b', 'a']);
    assert.equal(unread.bytes, 700);
  });
});
