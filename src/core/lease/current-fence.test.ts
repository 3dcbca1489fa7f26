import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { openStore } from '../store/open.ts';
import { commitFenced, commitUnfenced, currentFence, underLease } from './current-fence.ts';

const put = (name: string) => ({
  put: [{ collection: 'things', name, encode: () => Buffer.of(1) }],
});
/** No process ever held this lease, so the store rejects its epoch. */
const lost = { lease: 'controller.test', epoch: 1 };

async function newStore(t: TestContext) {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  t.after(() => store.close());
  return store;
}

describe('a write of a replica that lost its lease', () => {
  test('is rejected, also after it awaited something', async (t) => {
    const store = await newStore(t);
    const late = underLease(lost, async () => {
      await Promise.resolve();
      return commitFenced(store, put('a'));
    });
    await assert.rejects(late, { code: 'HANSA_FENCED' });
    assert.equal(store.get('things', 'a'), undefined);
  });

  test('passes if no lease orders it', async (t) => {
    const store = await newStore(t);
    await underLease(lost, () => commitUnfenced(store, put('a')));
    assert.notEqual(store.get('things', 'a'), undefined);
  });
});

test('a watcher runs under no lease, whoever commits, ends or starts it', async (t) => {
  const store = await newStore(t);
  const seen: unknown[] = [];
  const changes = () => void seen.push(currentFence());
  await store.commit(put('a'));
  // From revision 0: the change before is delivered after this call.
  underLease(lost, () => store.watch('things', 0, { changes, ended: changes }));
  await Promise.resolve();
  await underLease(lost, () => store.commit(put('b')));
  await underLease(lost, () => store.close());
  assert.deepEqual(seen, [undefined, undefined, undefined]);
});
