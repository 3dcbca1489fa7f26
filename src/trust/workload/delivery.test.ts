import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { settle } from '../../core/clock/virtual.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { WorkloadProcess } from './entries/workload-process.ts';
import { idsIn, nothing, processOf, scene, streamOf, told, unhashed } from './test-delivery.ts';
import { openAuthority, put, putEntry, remove } from './test-workload-site.ts';

test('a program that takes long to hash keeps nobody else waiting', async () => {
  const { store, delivery } = await scene();
  await putEntry(store, 'by-program', { selectors: [`unix:sha256:${'0'.repeat(64)}`] });
  await putEntry(store, 'slow', { selectors: ['unix:uid:1'] });
  await putEntry(store, 'quick', { selectors: ['unix:uid:2'] });
  let hash = (): void => undefined;
  const hashing = new Promise<void>((resolve) => (hash = resolve));
  const slow = streamOf(
    delivery,
    processOf(1, () => hashing),
  );
  const quick = await streamOf(
    delivery,
    processOf(2, async () => undefined),
  );
  assert.deepEqual(
    quick.entries.map(({ name }) => name),
    ['quick'],
  );
  hash();
  assert.deepEqual(
    (await slow).entries.map(({ name }) => name),
    ['slow'],
  );
});

test('a process is not judged before its program is hashed', async () => {
  const { store, delivery } = await scene();
  const sha256 = `unix:sha256:${'a'.repeat(64)}`;
  await putEntry(store, 'by-program', { selectors: [sha256] });
  const selectors = ['unix:uid:1'];
  const process: WorkloadProcess = {
    ...processOf(1, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      selectors.push(sha256);
    }),
    selectors,
  };
  const { entries } = await streamOf(delivery, process);
  assert.deepEqual(
    entries.map(({ name }) => name),
    ['by-program'],
  );
});

test('an open stream follows the labels of the Agent of its machine', async () => {
  const { store, clock, delivery, push } = await scene({ agent: 'site' });
  delivery.start();
  const label = (labels?: Record<string, string>): Promise<void> =>
    put(store, 'agents', 'site', { spec: {} }, labels);
  await label();
  await putEntry(store, 'web', { selectors: ['unix:uid:1'] });
  await putEntry(store, 'crane', {
    selectors: ['unix:uid:1'],
    agents: { selector: { matchLabels: { zone: 'harbour' } } },
  });
  const first = push();
  const states = told(delivery, processOf(1, unhashed));
  await first;
  for (const labels of [{ zone: 'harbour' }, { zone: 'gate' }]) {
    const next = push();
    await label(labels);
    await clock.advance(1);
    await next;
  }
  const names = states.map(({ entries }) => entries.map(({ name }) => name));
  assert.deepEqual(names, [['web'], ['crane', 'web'], ['web']]);
});

test('rests where an SVID is due that nobody streams any more', async (t) => {
  const { store, clock, delivery } = await scene();
  delivery.start();
  await putEntry(store, 'web', { selectors: ['unix:uid:1'], ttlSeconds: 600 });
  const process = processOf(1, async () => undefined);
  await streamOf(delivery, process);
  const svids = await streamOf(delivery, process, true);
  svids.close();
  await clock.advance(301_000);
  const timers = t.mock.method(clock, 'timer');
  await clock.advance(1_000);
  assert.ok(timers.mock.callCount() < 10, `${timers.mock.callCount()} timers in a second`);
});

test('an entry that becomes another while its SVID is issued is told as it is then, and never as it was', async () => {
  const { store, clock, delivery, issuing, push } = await scene();
  delivery.start();
  await putEntry(store, 'web', { selectors: ['unix:uid:1'] });
  issuing.isClosed = true;
  const states = told(delivery, processOf(1, unhashed));
  await issuing.arrival();
  await putEntry(store, 'web', {
    selectors: ['unix:uid:1'],
    spiffeID: 'spiffe://lubeck.example/other',
  });
  // The change is heard of while the work is under way.
  await clock.advance(1);
  issuing.isClosed = false;
  const pushed = push();
  issuing.letOnePass();
  await pushed;
  assert.deepEqual(idsIn(states), ['/other']);
});

test('what a tainted authority signed is replaced at once, also in the middle of other work', async () => {
  const { store, clock, delivery, authority, issuing, push } = await scene();
  delivery.start();
  authority.onChange(() => delivery.refresh());
  await putEntry(store, 'web', { selectors: ['unix:uid:1'] });
  await putEntry(store, 'second', { selectors: ['unix:uid:2'] });
  const first = push();
  const states = told(delivery, processOf(1, unhashed));
  await first;
  await authority.prepare('x509', () => []);
  await authority.activate('x509', undefined, () => []);
  await clock.advance(1);

  // While another stream waits for its SVID, the authority is tainted.
  issuing.isClosed = true;
  told(delivery, processOf(2, unhashed));
  await issuing.arrival();
  await authority.taint('x509', undefined, () => []);
  await clock.advance(1);
  const isTainted = (): boolean =>
    authority.isTainted(states.at(-1)?.svids[0]?.svid.authorityId ?? '');
  const pushed = push();
  issuing.open();
  await pushed;
  // The other stream may be told first: each waits for a real signature.
  while (isTainted()) await push();
  assert.equal(isTainted(), false);
});

test('of many streams, those that are told later get no SVID of an entry that is gone by then', async (t) => {
  const { store, clock, delivery, push } = await scene();
  await putEntry(store, 'web', { selectors: ['unix:uid:1'] });
  // Every step takes long, so that everybody else has a turn after each.
  let nowMs = clock.monotonic();
  t.mock.method(clock, 'monotonic', () => (nowMs += 1_000));
  const process = processOf(1, unhashed);
  const pushed = push();
  const early = told(delivery, process, () => void remove(store, 'workloadentries', 'web'));
  const late = told(delivery, process);
  await pushed;
  assert.deepEqual([idsIn(early), idsIn(late)], [['/web'], []]);
});

test('nothing is told before the stream knows how to end', async () => {
  const { store, delivery, push } = await scene();
  await putEntry(store, 'web', { selectors: ['unix:uid:1'] });
  const heard: string[] = [];
  const subscriber = {
    needsSvids: false,
    versionOf: () => '',
    send: () => heard.push('sent'),
    denied: () => heard.push('denied'),
    failed: nothing,
  };
  const pushed = push();
  delivery.subscribe(processOf(1, unhashed), subscriber);
  delivery.subscribe(processOf(2, unhashed), subscriber);
  assert.deepEqual(heard, []);
  await pushed;
  assert.deepEqual(heard, ['sent', 'denied']);
});

/** Forty others whom an entry asks for, and a clock by which every look at it takes a millisecond. */
async function crowdedScene(t: TestContext) {
  const made = await scene();
  const { store, clock } = made;
  const other = await openAuthority('bruges.example', clock);
  const bundle = encodeSpiffeBundle(other.bundle, { sequence: 1, refreshHintSeconds: 60 });
  const spec = { bundleSource: { static: { bundle } }, quarantined: false };
  const federate = (name: string) => put(store, 'spiffefederations', name, { spec });
  for (let at = 0; at < 40; at++) await federate(`n${at}.example`);
  await putEntry(store, 'web', { selectors: ['unix:uid:1'], federatesWith: ['*'] });
  let nowMs = clock.monotonic();
  t.mock.method(clock, 'monotonic', () => (nowMs += 1));
  return { ...made, federate };
}

test('a state with the bundles of very many is made in steps, and others run in between', async (t) => {
  const { delivery } = await crowdedScene(t);
  const states = told(delivery, processOf(1, unhashed));
  let turns = 0;
  for (; states.length === 0; turns++) await settle();
  assert.equal(states[0]?.federated.length, 40);
  // A decision and a bundle each, five in a row at most.
  assert.ok(turns >= 16, `${turns} turns`);
});

test('what goes while a state is made is not told', async (t) => {
  const { store, delivery } = await crowdedScene(t);
  const states = told(delivery, processOf(1, unhashed));
  await settle();
  await remove(store, 'spiffefederations', 'n7.example');
  while (states.length === 0) await settle();
  assert.equal(states[0]?.federated.length, 39);
});

test('a state is made and told also where something changes all the time', async (t) => {
  const { delivery, federate } = await crowdedScene(t);
  const states = told(delivery, processOf(1, unhashed));
  // Signing takes many turns on a busy machine.
  for (let at = 0; states.length === 0 && at < 10_000; at++) {
    await federate('n0.example');
    await settle();
  }
  assert.equal(states[0]?.federated.length, 40);
});

test('to verify one trust domain, no other is decided about', async (t) => {
  const { delivery, store } = await crowdedScene(t);
  const bundles = delivery.bundlesOf(processOf(1, unhashed));
  const asked = TrustDomain.parse('n7.example');
  assert.ok(bundles.bundleFor(asked));
  const looks = t.mock.method(store.facts, 'get');
  assert.ok(bundles.bundleFor(asked));
  assert.ok(looks.mock.callCount() <= 2, `${looks.mock.callCount()} looks`);
  assert.equal(bundles.bundleFor(TrustDomain.parse('stranger.example')), undefined);
});

/** A stream that was told the bundle of the peer bruges, and how to stop that peer. */
async function peeredScene(hashed: WorkloadProcess['hashed'] = unhashed) {
  const made = await scene();
  const { store, clock, delivery } = made;
  const other = await openAuthority('bruges.example', clock);
  const bundle = encodeSpiffeBundle(other.bundle, { sequence: 1, refreshHintSeconds: 60 });
  await put(store, 'spiffefederations', 'bruges.example', {
    spec: { bundleSource: { static: { bundle } }, quarantined: false },
  });
  const peerIs = (state: string) =>
    put(store, 'federationpeers', 'bruges.example', { spec: {}, status: { state } });
  await peerIs('active');
  await putEntry(store, 'web', { selectors: ['unix:uid:1'], federatesWith: ['*'] });
  delivery.start();
  const stream = await streamOf(delivery, processOf(1, hashed));
  await clock.advance(1);
  return { ...made, peerIs, stream };
}

test('the bundle of a peer counts as withheld when every stream was told so, and not before', async () => {
  const { delivery, clock, peerIs } = await peeredScene();
  assert.equal(delivery.withholds('bruges.example'), false);
  await peerIs('suspended');
  assert.equal(delivery.withholds('bruges.example'), false);
  await clock.advance(1);
  assert.equal(delivery.withholds('bruges.example'), true);
});

test('a federation that is deleted is not withheld from a stream that was not told of it', async () => {
  const { delivery, clock, store } = await peeredScene();
  await remove(store, 'spiffefederations', 'bruges.example');
  assert.equal(delivery.withholds('bruges.example'), false);
  await clock.advance(1);
  assert.equal(delivery.withholds('bruges.example'), true);
});

for (const end of ['is hashed', 'ends its stream'] as const) {
  test(`a peer is not withheld before a program that takes long to hash ${end}`, async () => {
    let hash = nothing;
    let hashing = Promise.resolve();
    const { delivery, clock, store, peerIs, stream } = await peeredScene(() => hashing);
    hashing = new Promise((resolve) => (hash = resolve));
    await putEntry(store, 'by-program', { selectors: [`unix:sha256:${'0'.repeat(64)}`] });
    await peerIs('revoked');
    await clock.advance(1);
    assert.equal(delivery.withholds('bruges.example'), false);
    if (end === 'ends its stream') stream.close();
    hash();
    await clock.advance(1);
    assert.equal(delivery.withholds('bruges.example'), true);
  });
}

for (const collection of ['workloadentries', 'federationgrants']) {
  test(`a damaged record in ${collection} is named at the start, after which nothing runs on`, async () => {
    const { store, clock, delivery } = await scene();
    await putEntry(store, 'sound', { spiffeID: 'spiffe://lubeck.example/a', selectors: [] });
    await store.commit({ put: [{ collection, name: 'broken', encode: () => Buffer.from('{') }] });
    assert.throws(
      () => delivery.start(),
      (error: unknown) =>
        hasCode(error, 'HANSA_STORE_CORRUPT') && String(error).includes(`${collection}/broken`),
    );
    // A timer that was left over would read the closed store, and end the process.
    await store.close();
    await clock.advance(3_600_000);
  });
}
