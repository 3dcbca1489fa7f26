import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { linkedSignal } from './linked-signal.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('a linked signal aborts with the reason of the first source that aborts', () => {
  const [one, other] = [new AbortController(), new AbortController()];
  const { signal } = linkedSignal(one.signal, other.signal);
  assert.equal(signal.aborted, false);
  other.abort('the other');
  one.abort('the one');
  assert.equal(signal.reason, 'the other');
});

test('a linked signal of an aborted source is aborted from the start', () => {
  const pending = new AbortController();
  const { signal } = linkedSignal(pending.signal, AbortSignal.abort('before'));
  assert.equal(signal.reason, 'before');
  assert.equal(getEventListeners(pending.signal, 'abort').length, 0);
});

test('an unlinked signal follows nothing and leaves no listener at its sources', () => {
  const sources = [new AbortController(), new AbortController()];
  const { signal, unlink } = linkedSignal(...sources.map((source) => source.signal));
  unlink();
  for (const source of sources) {
    assert.equal(getEventListeners(source.signal, 'abort').length, 0);
    source.abort();
  }
  assert.equal(signal.aborted, false);
});

test('a source that aborts frees the other sources', () => {
  const [one, other] = [new AbortController(), new AbortController()];
  linkedSignal(one.signal, other.signal);
  one.abort();
  assert.equal(getEventListeners(other.signal, 'abort').length, 0);
});

test('a linked signal with a listener is collected with its sources', async () => {
  const forgotten = ((): WeakRef<AbortSignal> => {
    const { signal } = linkedSignal(new AbortController().signal, new AbortController().signal);
    signal.addEventListener('abort', () => undefined);
    return new WeakRef(signal);
  })();
  // A WeakRef is kept until the turn in which it was made is over.
  await turn();
  collectGarbage();
  assert.equal(forgotten.deref(), undefined);
});
