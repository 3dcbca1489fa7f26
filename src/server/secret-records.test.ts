import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../core/clock/seeded-random.ts';
import { VirtualClock } from '../core/clock/virtual.ts';
import { hasCode } from '../core/errors/error.ts';
import { openStore } from '../core/store/open.ts';
import { createSealer } from '../core/store/sealing/sealer.ts';
import { foundingSecret } from './secret-records.ts';

async function scene() {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  const sealer = createSealer(Buffer.alloc(32, 7), new SeededRandom('secrets'));
  return { store, record: foundingSecret(store, sealer, 'authorities') };
}

test('a founding secret is made once, sealed, and found again', async () => {
  const { store, record } = await scene();
  assert.equal(await record.load(), undefined);
  assert.equal(await record.create(Buffer.from('first')), true);
  assert.equal(await record.create(Buffer.from('second')), false);
  await store.commit({ audit: [{ encode: () => Buffer.from('{}') }] });
  assert.equal(await record.create(Buffer.from('late')), false);
  assert.equal((await record.load())?.toString(), 'first');
  assert.ok(!store.get('site.secrets', 'authorities')?.value.includes('first'));
});

test('a founding secret that was taken away is not made anew', async () => {
  const { store, record } = await scene();
  await record.create(Buffer.from('first'));
  await store.commit({
    delete: [{ collection: 'site.secrets', name: 'authorities' }],
    audit: [{ encode: () => Buffer.from('{}') }],
  });
  await assert.rejects(
    async () => record.create(Buffer.from('forged')),
    (error) => hasCode(error, 'HANSA_STORE_CORRUPT'),
  );
});

test('a founding secret is replaced together with its audit row, and not over another change', async () => {
  const { store, record } = await scene();
  const rows = [{ encode: () => Buffer.from('{}') }];
  await record.create(Buffer.from('first'));
  await record.replace(Buffer.from('second'), rows);
  assert.equal((await record.load())?.toString(), 'second');
  assert.equal(store.auditLog.size, 1);
  const { value } = store.get('site.secrets', 'authorities') ?? { value: Buffer.alloc(0) };
  await store.commit({
    put: [{ collection: 'site.secrets', name: 'authorities', encode: () => value }],
  });
  await assert.rejects(record.replace(Buffer.from('third'), rows), (error) =>
    hasCode(error, 'HANSA_CONFLICT'),
  );
});

test('whoever watches a secret hears of its changes, and of no other', async () => {
  const { store, record } = await scene();
  await record.create(Buffer.from('first'));
  let heard = 0;
  const stop = record.watch(() => heard++);
  await record.replace(Buffer.from('second'), []);
  await store.commit({
    put: [{ collection: 'site.secrets', name: 'another', encode: () => Buffer.from('x') }],
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(heard, 1);
  stop();
  await record.replace(Buffer.from('third'), []);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(heard, 1);
});
