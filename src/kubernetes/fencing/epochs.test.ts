import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { epochAnnotation } from '../names.ts';
import { epochCollection, MemberEpochs } from './epochs.ts';

async function setUp(copies: readonly string[] = []) {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  const objects = copies.map((epoch) => ({
    metadata: { name: 'x', annotations: { [epochAnnotation]: epoch } },
  }));
  const epochs = (clusterID = 'a') => new MemberEpochs(store, clusterID, () => objects);
  return { store, epochs };
}

describe('the next epoch of a member', () => {
  test('exceeds that of the Lease, of every copy, and of the record of this site', async () => {
    const { epochs } = await setUp(['4', '9', 'nonsense']);
    assert.equal(await epochs().next(5), 10);
    assert.equal(await epochs().next(2), 11);
    assert.equal(await epochs().next(20), 21);
  });

  test('is never given twice, not even to two replicas at once', async () => {
    const { epochs } = await setUp();
    const given = await Promise.all([1, 2, 3, 4].map(() => epochs().next(0)));
    assert.equal(new Set(given).size, 4);
  });

  test('has nothing to do with another member', async () => {
    const { epochs } = await setUp();
    await epochs('a').next(7);
    assert.equal(await epochs('b').next(0), 1);
  });

  test('begins anew where the record is damaged, but above what the cluster says', async () => {
    const { store, epochs } = await setUp(['3']);
    await store.commit({
      put: [{ collection: epochCollection, name: 'a', encode: () => Buffer.from('rubbish') }],
    });
    assert.equal(await epochs().next(1), 4);
  });
});

describe('a Lease that a site sees', () => {
  test('is remembered where its epoch is higher', async () => {
    const { epochs } = await setUp();
    assert.equal(await epochs().observe({ epoch: 6, floor: 0 }), undefined);
    assert.equal(epochs().highest, 6);
  });

  test('needs a floor where its epoch went back, until it has one', async () => {
    const { epochs } = await setUp();
    await epochs().observe({ epoch: 6, floor: 0 });
    assert.equal(await epochs().observe({ epoch: 4, floor: 0 }), 6);
    assert.equal(await epochs().observe({ epoch: 4, floor: 6 }), undefined);
    assert.equal(await epochs().observe({ epoch: 7, floor: 6 }), undefined);
  });

  test('needs no floor below an epoch that was given and never used: its election was lost', async () => {
    const { epochs } = await setUp();
    await epochs().observe({ epoch: 6, floor: 0 });
    assert.equal(await epochs().next(6), 7);
    assert.equal(await epochs().next(6), 8);
    assert.equal(await epochs().observe({ epoch: 7, floor: 0 }), undefined);
    assert.deepEqual([epochs().seen, epochs().highest], [7, 8]);
    assert.equal(await epochs().next(7), 9);
  });

  test('is forgotten with the member', async () => {
    const { store, epochs } = await setUp();
    await epochs().forget();
    await epochs().observe({ epoch: 6, floor: 0 });
    await epochs().forget();
    assert.deepEqual([epochs().highest, store.count(epochCollection)], [0, 0]);
  });
});
