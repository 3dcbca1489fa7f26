import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { epochAnnotation } from '../names.ts';
import { epochCollection, MemberEpochs, mostRemembered, slotOf, slots } from './epochs.ts';

async function setUp(copies: readonly string[] = []) {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  const objects = copies.map((epoch) => ({
    metadata: { name: 'x', annotations: { [epochAnnotation]: epoch } },
  }));
  const epochs = (clusterID = 'a', site = 'lubeck.example') =>
    new MemberEpochs(store, clusterID, () => objects, site);
  return { store, objects, epochs };
}

/** The epochs of the site, from 0 on. */
const own = (index: number): number => index * slots + slotOf('lubeck.example');

describe('the next epoch of a member', () => {
  test('exceeds that of the Lease, of every copy, and of the record of this site', async () => {
    const { epochs } = await setUp(['4', String(own(2)), 'nonsense']);
    assert.equal(await epochs().next(5), own(3));
    assert.equal(await epochs().next(2), own(4));
    assert.equal(await epochs().next(own(20) - 1), own(20));
    assert.equal(await epochs().next(own(20) + 1), own(21));
  });

  test('is another one at each site, although no site knows what the others took', async () => {
    const sites = ['lubeck.example', 'bruges.example', 'danzig.example'];
    const given = await Promise.all(
      sites.map(async (site) => (await setUp()).epochs('a', site).next(0)),
    );
    assert.equal(new Set(given).size, 3);
  });

  test('is never given twice, not even to two replicas at once', async () => {
    const { epochs } = await setUp();
    const given = await Promise.all([1, 2, 3, 4].map(() => epochs().next(0)));
    assert.equal(new Set(given).size, 4);
  });

  test('has nothing to do with another member', async () => {
    const { epochs } = await setUp();
    await epochs('a').next(7);
    assert.equal(await epochs('b').next(0), own(0));
  });

  test('begins anew where the record is damaged, but above what the cluster says', async () => {
    const { store, epochs } = await setUp([String(own(3))]);
    await store.commit({
      put: [{ collection: epochCollection, name: 'a', encode: () => Buffer.from('rubbish') }],
    });
    assert.equal(await epochs().next(1), own(4));
  });
});

describe('a forged epoch', () => {
  test('without one above it says what to delete, and the next epoch is as before after that', async () => {
    const { objects, epochs } = await setUp();
    assert.equal(await epochs('b').next(own(4)), own(5));
    objects.push({
      metadata: { name: 'x', annotations: { [epochAnnotation]: '999999999999999' } },
    });
    for (const leased of [0, own(4)]) {
      await assert.rejects(epochs('b').next(leased), {
        code: 'HANSA_CONFLICT',
        message:
          /No site can lead b: .* epoch 999999999999999, .* delete the Lease hansa-leader.* services,endpointslices .* serviceimports.* ExternalEntity and PolicyRecord /,
      });
    }
    objects.pop();
    assert.equal(await epochs('b').next(0), own(6));
  });

  test('with some above it counts while it is in the cluster, and is not remembered', async () => {
    const { epochs } = await setUp();
    await epochs().observe({ epoch: own(3), floor: 0 });
    const high = mostRemembered + 1;
    assert.equal(await epochs().observe({ epoch: high, floor: 0 }), undefined);
    assert.ok((await epochs().next(high)) > high);
    assert.deepEqual([epochs().seen, epochs().highest], [own(3), own(3)]);
    assert.equal(await epochs().next(0), own(4));
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
    await epochs().observe({ epoch: own(6), floor: 0 });
    assert.equal(await epochs().next(own(6)), own(7));
    assert.equal(await epochs().next(own(6)), own(8));
    assert.equal(await epochs().observe({ epoch: own(7), floor: 0 }), undefined);
    assert.deepEqual([epochs().seen, epochs().highest], [own(7), own(8)]);
    assert.equal(await epochs().next(own(7)), own(9));
  });
});
