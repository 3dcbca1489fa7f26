import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import { openStore } from '../../core/store/open.ts';
import { agentEpoch, agentsLease, keepEpoch } from './agent-epoch.ts';

async function scene() {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  const keep = (epoch: number): Promise<void> => keepEpoch(store, epoch);
  const take = async (holder: string): Promise<number> => {
    const lease = await store.leases.acquire(agentsLease, holder, 1000);
    assert.ok(lease);
    await store.leases.release(agentsLease, holder, lease.epoch);
    return lease.epoch;
  };
  return { store, keep, take };
}

suite('the epoch of the agents', () => {
  test('is 0 before the first holder of the lease, and then its epoch', async () => {
    const { store, keep, take } = await scene();
    assert.equal(agentEpoch(store), 0);
    await keep(await take('one'));
    assert.equal(agentEpoch(store), 1);
    await keep(await take('two'));
    assert.equal(agentEpoch(store), 2);
  });

  test('is written once per holder', async () => {
    const { store, keep, take } = await scene();
    const epoch = await take('one');
    await keep(epoch);
    const { revision } = store;
    await keep(epoch);
    assert.equal(store.revision, revision);
  });

  test('cannot be set back by a holder that lost its lease', async () => {
    const { store, keep, take } = await scene();
    const old = await take('one');
    const current = await take('two');
    await assert.rejects(keep(old), (error) => hasCode(error, 'HANSA_FENCED'));
    await keep(current);
    await keep(old);
    assert.equal(agentEpoch(store), current);
  });
});
