import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import { MemoryDatabase } from '../../store/memory/driver.ts';
import { openStore } from '../../store/open.ts';
import { Bundle } from './bundle.ts';
import { BundlePublisher, lastPublished } from './published-bundle.ts';
import { parseSpiffeBundle } from './spiffe-bundle.ts';
import { forgeRoot } from '../x509/test-forge.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const first = new Bundle(lubeck, [forgeRoot('lubeck.example').certificate]);
const second = new Bundle(lubeck, [...first.authorities, forgeRoot('lubeck.example').certificate]);

const open = (database: MemoryDatabase) =>
  openStore({ driver: 'memory', database }, { clock: new VirtualClock() });

test('the first bundle has sequence 1, and every other one the next', async () => {
  const store = await open(new MemoryDatabase());
  const authority = { bundle: first };
  const publisher = new BundlePublisher(store, authority);
  assert.equal((await publisher.current()).sequence, 1);
  authority.bundle = second;
  const published = await publisher.current();
  assert.equal(published.sequence, 2);
  assert.equal(parseSpiffeBundle(published.document, lubeck).bundle.hash, second.hash);
  authority.bundle = first;
  assert.equal((await publisher.current()).sequence, 3);
});

test('a restart with the same authorities publishes the same bytes', async () => {
  const database = new MemoryDatabase();
  const before = await open(database);
  const one = await new BundlePublisher(before, { bundle: first }).current();
  await before.close();
  const after = await open(database);
  const two = await new BundlePublisher(after, { bundle: first }).current();
  assert.deepEqual([two.sequence, two.document], [one.sequence, one.document]);
  assert.deepEqual(two.document, one.document);
  assert.deepEqual(lastPublished(after), { hash: first.hash, sequence: 1 });
});

test('replicas that publish at once agree on the sequence', async () => {
  const store = await open(new MemoryDatabase());
  const sequences = await Promise.all(
    [1, 2, 3].map(
      async () => (await new BundlePublisher(store, { bundle: first }).current()).sequence,
    ),
  );
  assert.deepEqual(sequences, [1, 1, 1]);
});

test('what is published is answered at once, without a promise', async () => {
  const store = await open(new MemoryDatabase());
  const publisher = new BundlePublisher(store, { bundle: first });
  const made = await publisher.current();
  assert.equal(publisher.current(), made);
});

test('a replica follows the sequence of another that published the same after something else', async () => {
  const store = await open(new MemoryDatabase());
  const late = { bundle: first };
  const one = new BundlePublisher(store, { bundle: second });
  const other = new BundlePublisher(store, late);
  assert.equal((await one.current()).sequence, 1);
  assert.equal((await other.current()).sequence, 2);
  assert.equal((await one.current()).sequence, 1, 'the two do not outbid each other');
  late.bundle = second;
  assert.equal((await other.current()).sequence, 3);
  assert.equal((await one.current()).sequence, 3);
});

test('a change while the sequence is written is published too, for whoever asked before it', async () => {
  const store = await open(new MemoryDatabase());
  const authority = { bundle: first };
  const publisher = new BundlePublisher(store, authority);
  const asked = publisher.current();
  authority.bundle = second;
  assert.equal((await asked).bundle, second);
  assert.equal(lastPublished(store)?.hash, second.hash);
});

test('the hint is what the operator set', async () => {
  const store = await open(new MemoryDatabase());
  const { document } = await new BundlePublisher(store, { bundle: first }, 60).current();
  assert.equal(parseSpiffeBundle(document, lubeck).refreshHintSeconds, 60);
});
