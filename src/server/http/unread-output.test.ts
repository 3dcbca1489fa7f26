import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { settle, VirtualClock } from '../../core/clock/virtual.ts';
import { maxWriteBytes, UnreadBudget } from './unread-output.ts';

/** A user may have 1,000. */
const limits = { withinMs: 60_000, maxBytes: 4000 };

function scene() {
  const clock = new VirtualClock();
  const unread = new UnreadBudget(clock, limits);
  const cut: string[] = [];
  const output = (name: string) => ({ cutOff: () => void cut.push(name) });
  return { clock, unread, cut, output };
}

async function pass(clock: VirtualClock, ms: number): Promise<void> {
  await clock.advance(ms);
  await settle();
}

suite('unread output', () => {
  test('counts while it waits, and no more once it is read', () => {
    const { unread, output } = scene();
    const [a, b] = [output('a'), output('b')];
    unread.hold(a, 'ada', 100);
    unread.hold(b, 'ada', 200);
    unread.grow(a, 50);
    assert.equal(unread.bytes, 350);
    unread.release(a);
    unread.release(a);
    unread.release(b);
    unread.grow(b, 50);
    assert.equal(unread.bytes, 0);
  });

  test('is cut off when it was not read within the deadline, each by its own', async () => {
    const { clock, unread, cut, output } = scene();
    unread.hold(output('a'), 'ada', 1);
    await pass(clock, 30_000);
    unread.hold(output('b'), 'ada', 1);
    await pass(clock, 30_000);
    assert.deepEqual(cut, ['a']);
    await pass(clock, 30_000);
    assert.deepEqual(cut, ['a', 'b']);
    assert.equal(unread.bytes, 0);
  });

  test('is not cut off while some of it is read within each deadline', async () => {
    const { clock, unread, cut, output } = scene();
    const slow = output('slow');
    for (let chunk = 0; chunk < 10; chunk += 1) {
      unread.hold(slow, 'ada', 100);
      await pass(clock, 59_000);
      unread.release(slow);
    }
    await pass(clock, 120_000);
    assert.deepEqual(cut, []);
  });

  test('of a user beyond the share is cut off, what waits longest first, and no more than needed', () => {
    const { unread, cut, output } = scene();
    const [a, b, c] = [output('a'), output('b'), output('c')];
    unread.hold(a, 'ada', 400);
    unread.hold(b, 'ada', 400);
    // It has read once more since, so it no longer waits longest.
    unread.hold(a, 'ada', 400);
    unread.hold(c, 'ada', 400);
    assert.deepEqual(cut, ['b']);
    unread.grow(c, 300);
    assert.deepEqual(cut, ['b', 'a']);
    assert.equal(unread.bytes, 700);
  });

  test('of a user beyond the share does not touch that of others', () => {
    const { unread, cut, output } = scene();
    unread.hold(output('old'), 'bo', 900);
    unread.hold(output('a'), 'ada', 900);
    unread.hold(output('b'), 'ada', 900);
    assert.deepEqual(cut, ['a']);
  });

  test('beyond the whole budget, the user with most of it pays, and not the oldest', () => {
    const { unread, cut, output } = scene();
    unread.hold(output('small'), 'bo', 20);
    for (const user of ['a', 'b', 'c', 'd']) {
      unread.hold(output(`${user}1`), user, 300);
      unread.hold(output(`${user}2`), user, user === 'b' ? 700 : 695);
    }
    assert.deepEqual(cut, ['b1']);
  });

  test('leaves room for many writes of a user, and for a first one that is large', () => {
    const clock = new VirtualClock();
    const unread = new UnreadBudget(clock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 });
    const cut: string[] = [];
    assert.equal(unread.writeBytes('ada'), maxWriteBytes);
    for (let at = 0; at < 100; at += 1) {
      unread.hold({ cutOff: () => void cut.push('') }, 'ada', unread.writeBytes('ada'));
    }
    assert.deepEqual(cut, []);
    assert.equal(unread.writeBytes('bo'), maxWriteBytes);
  });
});
