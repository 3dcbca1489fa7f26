import assert from 'node:assert/strict';
import { test } from 'node:test';
import { yieldToEventLoop } from '../../clock/yield-to-event-loop.ts';
import { type Verify, VerifyQueue } from './verify-queue.ts';

const nothing = Buffer.alloc(0);
const { signal } = new AbortController();

/** Verifications that wait for the test, in the order of their start. */
function scene(atOnce: number) {
  const begun: string[] = [];
  const finish: (() => void)[] = [];
  const verify: Verify = (digest) =>
    new Promise((resolve) => {
      begun.push(digest ?? '');
      finish.push(() => resolve(true));
    });
  const queue = new VerifyQueue(verify, atOnce);
  const ask = (source: string, name: string, stop = signal) =>
    queue.of(source, stop)(name, nothing, {} as never, nothing);
  return { begun, ask, finishNext: () => finish.shift()?.() };
}

test('no more signatures than that are checked at once', async () => {
  const { begun, ask, finishNext } = scene(2);
  const all = ['a', 'b', 'c', 'd'].map((name) => ask('x', name));
  await yieldToEventLoop();
  assert.deepEqual(begun, ['a', 'b']);
  finishNext();
  await yieldToEventLoop();
  assert.deepEqual(begun, ['a', 'b', 'c']);
  for (let at = 0; at < 3; at++) {
    finishNext();
    await yieldToEventLoop();
  }
  assert.deepEqual(await Promise.all(all), [true, true, true, true]);
  void ask('x', 'later');
  await yieldToEventLoop();
  assert.equal(begun.at(-1), 'later');
});

test('a source with many waits behind each source with one', async () => {
  const { begun, ask, finishNext } = scene(1);
  const many = Array.from({ length: 6 }, (_, at) => ask('flood', `f${at}`));
  const few = [ask('one', 'first'), ask('two', 'second')];
  for (let at = 0; at < 8; at++) {
    await yieldToEventLoop();
    finishNext();
  }
  await Promise.all([...many, ...few]);
  assert.deepEqual(begun.slice(0, 5), ['f0', 'f1', 'first', 'second', 'f2']);
});

test('who is gone is not checked any more, and the turn goes on', async () => {
  const { begun, ask, finishNext } = scene(1);
  const gone = new AbortController();
  const first = ask('x', 'a');
  const second = ask('x', 'b', gone.signal);
  const third = ask('x', 'c');
  gone.abort(new Error('gone'));
  await yieldToEventLoop();
  finishNext();
  await assert.rejects(second, /gone/);
  await yieldToEventLoop();
  finishNext();
  await Promise.all([first, third]);
  assert.deepEqual(begun, ['a', 'c']);
});
