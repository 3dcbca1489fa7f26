import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settle } from '../../core/clock/virtual.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { idsIn, processOf, scene, streamOf, told, unhashed } from './test-delivery.ts';
import { openAuthority, put, putEntry, remove } from './test-workload-site.ts';

test('a stream whose SVID is issued slowly delays no other stream', async () => {
  const { store, delivery, issuing } = await scene();
  await putEntry(store, 'slow', { selectors: ['unix:uid:1'] });
  await putEntry(store, 'quick', { selectors: ['unix:uid:2'] });
  issuing.isClosed = true;
  const slow = told(delivery, processOf(1, unhashed));
  await issuing.arrival();
  issuing.isClosed = false;
  const quick = await streamOf(delivery, processOf(2, unhashed), true);
  assert.equal(quick.svids[0]?.svid.id.path, '/quick');
  assert.deepEqual(slow, []);
  issuing.open();
  while (slow.length === 0) await settle();
  assert.deepEqual(idsIn(slow), ['/slow']);
});

test('a renewal that takes long delays a changed state for a moment only, and then follows it', async () => {
  const { store, clock, delivery, issuing } = await scene();
  const other = await openAuthority('bruges.example', clock);
  const bundle = encodeSpiffeBundle(other.bundle, { sequence: 1, refreshHintSeconds: 60 });
  const spec = { bundleSource: { static: { bundle } }, quarantined: false };
  await put(store, 'spiffefederations', 'bruges.example', { spec });
  await putEntry(store, 'web', { selectors: ['unix:uid:1'], federatesWith: ['*'] });
  delivery.start();
  const states = told(delivery, processOf(1, unhashed));
  while (states.length === 0) await settle();
  const first = states[0]?.svids[0]?.svid;
  issuing.isClosed = true;
  await clock.advance(1_810_000);
  await issuing.arrival();
  await remove(store, 'spiffefederations', 'bruges.example');
  await clock.advance(300);
  assert.equal(states.length, 2);
  assert.deepEqual([states[1]?.federated.length, states[1]?.svids[0]?.svid], [0, first]);
  // A later change is not delayed any more.
  await put(store, 'spiffefederations', 'bruges.example', { spec });
  await clock.advance(1);
  assert.equal(states[2]?.federated.length, 1);
  issuing.open();
  while (states.length < 4) await settle();
  assert.notEqual(states[3]?.svids[0]?.svid, first);
});

test('a renewal that takes long does not make the delivery busy', async (t) => {
  const { store, clock, delivery, issuing } = await scene();
  delivery.start();
  await putEntry(store, 'web', { selectors: ['unix:uid:1'] });
  const states = told(delivery, processOf(1, unhashed));
  while (states.length === 0) await settle();
  issuing.isClosed = true;
  await clock.advance(1_810_000);
  await issuing.arrival();
  const timers = t.mock.method(clock, 'timer');
  await clock.advance(1_000);
  assert.ok(timers.mock.callCount() < 10, `${timers.mock.callCount()} timers in a second`);
});

test('an entry that goes while its SVID cannot be issued ends the stream as denied', async () => {
  const { store, clock, delivery, issuing } = await scene();
  delivery.start();
  await putEntry(store, 'web', { selectors: ['unix:uid:1'] });
  issuing.isClosed = true;
  const stream = streamOf(delivery, processOf(1, unhashed), true);
  await issuing.arrival();
  await remove(store, 'workloadentries', 'web');
  issuing.breaks = new Error('dark');
  issuing.open();
  await assert.rejects(stream, /denied/);
  await clock.advance(1);
});

test('asks ahead for entries that nobody uses yet, up to the limit, and renews them', async () => {
  const { store, clock, delivery, supply } = await scene({ entriesAhead: 2 });
  for (const name of ['a', 'b', 'c']) await putEntry(store, name, { ttlSeconds: 600 });
  delivery.start();
  await clock.advance(1);
  while (supply.held.length < 2) await settle();
  const first = supply.held.map(({ svid }) => svid.serialHex);
  assert.deepEqual(
    supply.held.map(({ entryName }) => entryName),
    ['a', 'b'],
  );
  await clock.advance(310_000);
  // Signatures are made in real time.
  while (supply.held.some(({ svid }) => first.includes(svid.serialHex))) await settle();
  assert.equal(supply.held.length, 2);
  await remove(store, 'workloadentries', 'a');
  await clock.advance(1);
  while (supply.held.length < 2) await settle();
  assert.deepEqual(
    supply.held.map(({ entryName }) => entryName),
    ['b', 'c'],
  );
});
