import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { silent } from '../../core/agent/test-channel.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import { openStore } from '../../core/store/open.ts';
import { agentEpoch, agentsLease } from '../agents/agent-epoch.ts';
import { agentEpochController } from './agent-epoch-controller.ts';

async function scene() {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  const controller = agentEpochController({ store });
  const reconcile = (epoch: number): Promise<unknown> =>
    controller.reconcile('current', { epoch, log: silent, signal: AbortSignal.timeout(60_000) });
  const take = async (holder: string): Promise<number> => {
    const lease = await store.leases.acquire(agentsLease, holder, 1000);
    assert.ok(lease);
    await store.leases.release(agentsLease, holder, lease.epoch);
    return lease.epoch;
  };
  return { store, reconcile, take };
}

suite('the epoch of the agents', () => {
  test('is 0 before the first holder of the lease, and then its epoch', async () => {
    const { store, reconcile, take } = await scene();
    assert.equal(agentEpoch(store), 0);
    await reconcile(await take('one'));
    assert.equal(agentEpoch(store), 1);
    await reconcile(await take('two'));
    assert.equal(agentEpoch(store), 2);
  });

  test('is written once per holder', async () => {
    const { store, reconcile, take } = await scene();
    const epoch = await take('one');
    await reconcile(epoch);
    const { revision } = store;
    await reconcile(epoch);
    assert.equal(store.revision, revision);
  });

  test('cannot be set back by a holder that lost its lease', async () => {
    const { store, reconcile, take } = await scene();
    const old = await take('one');
    const current = await take('two');
    await assert.rejects(reconcile(old), (error) => hasCode(error, 'HANSA_FENCED'));
    await reconcile(current);
    await reconcile(old);
    assert.equal(agentEpoch(store), current);
  });
});
