import assert from 'node:assert/strict';
import { test } from 'node:test';
import { personCaller } from '../../core/access/identity.ts';
import { timestamp } from '../../api/object.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { type ErrorCode, HansaError } from '../../core/errors/error.ts';
import { openStore } from '../../core/store/open.ts';
import type { Entry, Expectation } from '../../core/store/store.ts';
import { type ChangeInput, patchWith } from './changes.ts';
import { decodeObject } from './decode.ts';
import { type ObjectDraft, objectOf } from './object-of.ts';
import { boatKind } from './test-kind.ts';
import { ResourceWriter, type WriteContext, type WriteRecord } from './writer.ts';

const caller = personCaller('anna', '01');
const noDelete = { dryRun: false, uid: undefined, resourceVersion: undefined };

async function scene() {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const records: WriteRecord[] = [];
  const admitted: { expectations: readonly Expectation[] } = { expectations: [] };
  const writer = new ResourceWriter({
    store,
    clock,
    random: new SeededRandom('writer'),
    admit: () => admitted.expectations,
    auditRow: (record) => {
      records.push(record);
      return undefined;
    },
  });
  const input = (name: string, subresource?: 'status'): ChangeInput => ({
    kind: boatKind,
    name,
    subresource,
    options: context('patch').options,
    timeIso: timestamp(clock.now()),
    warn: () => undefined,
  });
  const merge = (name: string, patch: object, subresource?: 'status') =>
    writer.update(
      boatKind,
      name,
      subresource,
      context('patch'),
      patchWith(
        input(name, subresource),
        'application/merge-patch+json',
        Buffer.from(JSON.stringify(patch)),
      ),
    );
  return { clock, store, writer, records, admitted, merge };
}

function context(verb: WriteContext['verb'], dryRun = false): WriteContext {
  return {
    caller,
    verb,
    options: { dryRun, manager: 'test', fieldValidation: 'Strict', force: false },
    requestId: 'r',
    address: undefined,
  };
}

function boat(metadata: object, spec: object = { berths: 2 }): ObjectDraft {
  const body = Buffer.from(
    JSON.stringify({ apiVersion: 'hansa.dev/v1alpha1', kind: 'Boat', metadata, spec }),
  );
  return decodeObject(boatKind, body, undefined, context('create').options, () => undefined);
}

const code = (expected: ErrorCode) => (error: unknown) =>
  error instanceof HansaError && error.code === expected;

test('creating sets what only the site may set, fills in defaults, and drops a status', async () => {
  const { writer, store } = await scene();
  const sent = {
    ...boat({ name: 'a', uid: 'mine', generation: 9, creationTimestamp: '1999-01-01T00:00:00Z' }),
    status: { state: 'sunk' },
  };
  const { object, created } = await writer.create(boatKind, sent, context('create'));
  assert.equal(created, true);
  assert.notEqual(object.metadata.uid, 'mine');
  assert.equal(object.metadata.generation, 1);
  assert.equal(object.metadata.resourceVersion, String(store.revision));
  assert.deepEqual(object.spec, { berths: 2, home: 'lubeck' });
  assert.equal(object.status, undefined);
});

test('a second object of the same name is refused, also where both are created at once', async () => {
  const { writer, store } = await scene();
  const both = await Promise.allSettled([
    writer.create(boatKind, boat({ name: 'a' }), context('create')),
    writer.create(boatKind, boat({ name: 'a' }), context('create')),
  ]);
  assert.deepEqual(both.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  assert.equal(store.count('boats'), 1);
  await assert.rejects(
    writer.create(boatKind, boat({ name: 'a' }), context('create')),
    code('HANSA_ALREADY_EXISTS'),
  );
});

test('a generated name begins as asked and is free', async () => {
  const { writer } = await scene();
  const made = await Promise.all(
    Array.from({ length: 20 }, () =>
      writer.create(boatKind, boat({ generateName: 'cog-' }), context('create')),
    ),
  );
  const names = made.map(({ object }) => object.metadata.name ?? '');
  assert.equal(new Set(names).size, 20);
  assert.ok(names.every((name) => /^cog-[a-z0-9]{5}$/.test(name)));
});

test('patches that were overtaken are applied to what is there now, and none is lost', async () => {
  const { writer, merge, store } = await scene();
  await writer.create(boatKind, boat({ name: 'a' }), context('create'));
  await Promise.all(
    Array.from({ length: 10 }, (_, at) =>
      merge('a', { metadata: { labels: { [`l${at}`]: 'x' } } }),
    ),
  );
  const stored = JSON.parse(store.get('boats', 'a')?.value.toString() ?? '') as ObjectDraft;
  assert.equal(Object.keys(stored.metadata.labels ?? {}).length, 10);
});

test('a patch that names an old resourceVersion is refused', async () => {
  const { writer, merge } = await scene();
  const { object } = await writer.create(boatKind, boat({ name: 'a' }), context('create'));
  await merge('a', { spec: { berths: 3 } });
  const stale = {
    metadata: { resourceVersion: object.metadata.resourceVersion },
    spec: { berths: 4 },
  };
  await assert.rejects(merge('a', stale), code('HANSA_CONFLICT'));
});

test('a write that changes nothing takes no revision and leaves no record', async () => {
  const { writer, merge, store, records, clock } = await scene();
  await writer.create(boatKind, boat({ name: 'a' }), context('create'));
  await merge('a', { spec: { berths: 3 } });
  const { revision } = store;
  const written = records.length;
  await clock.advance(60_000);
  await merge('a', { spec: { berths: 3 } });
  assert.equal(store.revision, revision);
  assert.equal(records.length, written);
});

test('the generation counts changes of the spec, not of metadata or status', async () => {
  const { writer, merge } = await scene();
  await writer.create(boatKind, boat({ name: 'a' }), context('create'));
  assert.equal(
    (await merge('a', { metadata: { labels: { x: 'y' } } })).object.metadata.generation,
    1,
  );
  assert.equal(
    (await merge('a', { status: { state: 'afloat' } }, 'status')).object.metadata.generation,
    1,
  );
  assert.equal((await merge('a', { spec: { berths: 8 } })).object.metadata.generation, 2);
});

test('the main resource does not write status, and the status does not write anything else', async () => {
  const { writer, merge } = await scene();
  await writer.create(boatKind, boat({ name: 'a' }), context('create'));
  assert.equal(
    (await merge('a', { status: { state: 'sunk' }, spec: { berths: 5 } })).object.status,
    undefined,
  );
  const { object } = await merge(
    'a',
    { status: { state: 'afloat' }, spec: { berths: 99 }, metadata: { labels: { x: 'y' } } },
    'status',
  );
  assert.deepEqual(object.status, { state: 'afloat' });
  assert.deepEqual(object.spec, { berths: 5, home: 'lubeck' });
  assert.equal(object.metadata.labels, undefined);
});

test('a dry run says what would be, and changes nothing', async () => {
  const { writer, store, records } = await scene();
  const { object } = await writer.create(boatKind, boat({ name: 'a' }), context('create', true));
  assert.equal(object.metadata.generation, 1);
  assert.equal(store.revision, 0);
  assert.equal(records.length, 0);
});

test('an object with finalizers is marked, and goes when the last one is removed', async () => {
  const { writer, merge, store } = await scene();
  await writer.create(
    boatKind,
    boat({ name: 'a', finalizers: ['hansa.dev/x'] }),
    context('create'),
  );
  const { pending } = await writer.delete(boatKind, 'a', noDelete, context('delete'));
  assert.notEqual(pending?.object.metadata.deletionTimestamp, undefined);
  assert.equal(pending?.object.metadata.generation, 2);
  await assert.rejects(
    writer.create(boatKind, boat({ name: 'a' }), context('create')),
    /object is being deleted/,
  );
  await merge('a', { metadata: { finalizers: null } });
  assert.equal(store.get('boats', 'a'), undefined);
});

test('a deletion with a precondition that does not hold is refused', async () => {
  const { writer } = await scene();
  await writer.create(boatKind, boat({ name: 'a' }), context('create'));
  for (const wrong of [{ uid: 'other' }, { resourceVersion: '77' }]) {
    await assert.rejects(
      writer.delete(boatKind, 'a', { ...noDelete, ...wrong }, context('delete')),
      code('HANSA_CONFLICT'),
    );
  }
});

test('what admission relied upon must still hold at the commit, and admission is asked again', async () => {
  const { writer, store, admitted } = await scene();
  admitted.expectations = [{ collection: 'roles', name: 'r', at: 'absent' }];
  const writing = writer.create(boatKind, boat({ name: 'a' }), context('create'));
  await store.commit({
    put: [{ collection: 'roles', name: 'r', encode: () => Buffer.from('{}') }],
  });
  await writing;
  await assert.rejects(
    writer.create(boatKind, boat({ name: 'b' }), context('create')),
    code('HANSA_CONFLICT'),
  );
});

test('an object that breaks its schema is refused with every cause', async () => {
  const { writer } = await scene();
  await assert.rejects(
    async () => writer.create(boatKind, boat({ name: 'UPPER' }, { berths: -1 }), context('create')),
    (error) => {
      assert.ok(error instanceof HansaError && error.code === 'HANSA_INVALID');
      assert.deepEqual(
        error.details?.causes?.map(({ field }) => field).filter((field) => field !== '<nil>'),
        ['metadata.name', 'spec.berths'],
      );
      return true;
    },
  );
});

test('an apply whose object goes while it waits needs the right to create it anew', async () => {
  const { writer, store } = await scene();
  await writer.create(boatKind, boat({ name: 'a' }), context('create'));
  const forbidden = new HansaError('HANSA_FORBIDDEN', 'may patch, may not create');
  const deleted = writer.delete(
    boatKind,
    'a',
    { dryRun: false, uid: undefined, resourceVersion: undefined },
    context('delete'),
  );
  const applied = writer.update(
    boatKind,
    'a',
    undefined,
    context('apply'),
    (live) => (live === undefined ? boat({ name: 'a' }) : { ...live, spec: { berths: 3 } }),
    () => {
      throw forbidden;
    },
  );
  await deleted;
  await assert.rejects(applied, forbidden);
  assert.equal(store.count('boats'), 0);
});

test('a version that was replaced is kept as bytes alone', async () => {
  const { writer, store, merge } = await scene();
  await writer.create(boatKind, boat({ name: 'a' }), context('create'));
  const before = store.get('boats', 'a') as Entry;
  const parsed = objectOf(before);
  assert.equal(objectOf(before), parsed);
  await merge('a', { spec: { berths: 9 } });
  assert.notEqual(objectOf(before), parsed);
  assert.deepEqual(objectOf(before), parsed);
});
