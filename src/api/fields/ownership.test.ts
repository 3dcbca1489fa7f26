import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Json, JsonObject, ManagedFieldsEntry } from '../object.ts';
import {
  anySpec,
  apiVersion,
  apply,
  create,
  entries,
  failure,
  kind,
  owners,
  sample,
  sampleSchema,
  time,
  update,
} from './conformance-sample.ts';
import { listPaths } from './field-set.ts';
import { decodeFieldsV1 } from './fields-v1.ts';
import { keepTimesIfUnchanged, recordUpdate } from './ownership.ts';
import { printPath } from './path-element.ts';

describe('create, update and patch', () => {
  it('give the creator everything but what identifies the object', () => {
    const object = create(
      sample({
        metadata: { labels: { a: 'b' }, finalizers: ['hansa.dev/x'] },
        spec: { title: 't' },
      }),
    );
    assert.deepEqual(entries(object), [
      {
        apiVersion,
        fieldsType: 'FieldsV1',
        fieldsV1: {
          'f:metadata': {
            'f:finalizers': { '.': {}, 'v:"hansa.dev/x"': {} },
            'f:labels': { '.': {}, 'f:a': {} },
          },
          'f:spec': { '.': {}, 'f:title': {} },
        },
        manager: 'me',
        operation: 'Update',
        time: time(0),
      },
    ]);
  });

  it('call a manager without a name unknown', () => {
    assert.equal(
      entries(create(sample({ spec: { title: 't' } }), { manager: '' }))[0]?.manager,
      'unknown',
    );
  });

  it('give a writer what it changed, and take it from the others', () => {
    const live = create(sample({ spec: { title: 'a', size: 1, tags: ['x'] } }));
    const next = update(live, sample({ spec: { title: 'b', size: 1, tags: ['y'] } }), {
      manager: 'you',
      at: 5,
    });
    assert.deepEqual(owners(next), [
      'me Update: .spec .spec.size .spec.tags',
      'you Update: .spec.title .spec.tags[="y"]',
    ]);
    assert.deepEqual(
      entries(next).map((entry) => entry.time),
      [time(0), time(5)],
    );
  });

  it('add to what the same manager wrote before, with a new time', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const next = update(live, sample({ spec: { title: 'a', size: 1 } }), { at: 9 });
    assert.deepEqual(owners(next), ['me Update: .spec .spec.size .spec.title']);
    assert.equal(entries(next)[0]?.time, time(9));
  });

  it('that change nothing leave entries and times as they are', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const next = update(live, live, { manager: 'you', at: 9 });
    assert.deepEqual(next, live);
  });

  it('forget a manager that owns nothing any more', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const next = update(live, sample({}), { manager: 'you' });
    assert.deepEqual(owners(next), []);
    assert.ok(!Object.hasOwn(next['metadata'] as JsonObject, 'managedFields'));
  });

  it('do not own the status, which the main endpoint resets', () => {
    const object = create(sample({ spec: { title: 'a' }, status: { phase: 'Ready' } }));
    assert.deepEqual(owners(object), ['me Update: .spec .spec.title']);
  });

  it('own nothing but the status at the status endpoint', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const next = update(live, sample({ spec: { title: 'b' }, status: { phase: 'Ready' } }), {
      manager: 'controller',
      subresource: 'status',
    });
    assert.deepEqual(owners(next), [
      'controller Update/status: .status .status.phase',
      'me Update: .spec .spec.title',
    ]);
  });

  it('take over managedFields that the client sends', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const sent = [{ ...(entries(live)[0] as ManagedFieldsEntry), manager: 'renamed' }];
    const next = update(live, {
      ...live,
      metadata: { ...(live['metadata'] as JsonObject), managedFields: sent as unknown as Json },
    });
    assert.deepEqual(owners(next), ['renamed Update: .spec .spec.title']);
  });

  it('ignore managedFields that the client sends to the status endpoint', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const metadata = { ...(live['metadata'] as JsonObject), managedFields: [{}] };
    const next = update(live, { ...live, metadata }, { subresource: 'status' });
    assert.deepEqual(owners(next), owners(live));
  });

  it('ignore managedFields that are malformed or empty', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const good = {
      manager: 'x',
      operation: 'Update',
      apiVersion,
      fieldsType: 'FieldsV1',
      fieldsV1: {},
    };
    for (const bad of [
      [],
      null,
      'x',
      ['x'],
      [{ ...good, operation: 'Delete' }],
      [{ ...good, apiVersion: '' }],
      [{ ...good, fieldsType: 'FieldsV2' }],
      [{ ...good, fieldsV1: { bad: {} } }],
      [{ ...good, fieldsV1: [] }],
    ] as Json[]) {
      const metadata = { ...(live['metadata'] as JsonObject), managedFields: bad };
      const next = update(live, { ...live, metadata, spec: { title: 'b' } }, { manager: 'you' });
      assert.deepEqual(
        owners(next),
        ['me Update: .spec', 'you Update: .spec.title'],
        JSON.stringify(bad),
      );
    }
  });

  it('forget all managers when the client sends one empty entry, until the next apply', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const metadata = { ...(live['metadata'] as JsonObject), managedFields: [{}] };
    const reset = update(live, { ...live, metadata });
    assert.deepEqual(owners(reset), []);
    const next = update(reset, sample({ spec: { title: 'b' } }));
    assert.deepEqual(owners(next), []);
    const applied = apply(next, sample({ spec: { size: 1 } }), { manager: 'applier' });
    assert.deepEqual(owners(applied), [
      'applier Apply: .spec.size',
      'before-first-apply Update: .spec .spec.title',
    ]);
  });

  it('drop all entries where one is of a version that does not exist', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const foreign = [{ ...(entries(live)[0] as ManagedFieldsEntry), apiVersion: 'hansa.dev/v9' }];
    const metadata = {
      ...(live['metadata'] as JsonObject),
      managedFields: foreign as unknown as Json,
    };
    assert.deepEqual(owners(update(live, { ...live, metadata })), []);
  });

  it('return an object that does not fit the schema without managedFields', () => {
    for (const spec of [
      { nested: 'x' },
      { ports: [1] },
      { tags: [{}] },
      { nope: 1 },
    ] as JsonObject[]) {
      const object = recordUpdate({
        schema: sampleSchema,
        apiVersion,
        kind,
        manager: 'me',
        timeIso: time(0),
        live: undefined,
        next: sample({ spec }),
      });
      assert.deepEqual(object, sample({ spec }));
    }
  });

  it('merge the oldest updaters when there are more than ten', () => {
    let live = create(sample({ spec: { labels: { m0: 'x' } } }), { manager: 'm0' });
    for (let i = 1; i < 12; i++) {
      const { labels } = live['spec'] as { labels: JsonObject };
      live = update(live, sample({ spec: { labels: { ...labels, [`m${i}`]: 'x' } } }), {
        manager: `m${i}`,
        at: i,
      });
    }
    assert.equal(entries(live).length, 10);
    assert.equal(
      owners(live)[0],
      'ancient-changes Update: .spec .spec.labels .spec.labels.m0 .spec.labels.m1 .spec.labels.m2',
    );
    assert.equal(entries(live)[0]?.time, time(2));
  });

  it('never change their input', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (before, after) => {
        const live = create(sample({ spec: before }));
        const next = sample({ spec: after });
        const text = JSON.stringify([live, next]);
        update(live, next, { manager: 'you' });
        assert.equal(JSON.stringify([live, next]), text);
      }),
    );
  });

  it('leave every field with one owner, or with those who wrote the same value', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (before, after) => {
        const next = update(create(sample({ spec: before })), sample({ spec: after }), {
          manager: 'you',
        });
        const all = entries(next).flatMap((entry) => listPaths(decodeFieldsV1(entry.fieldsV1)));
        const texts = all.map(printPath);
        assert.equal(new Set(texts).size, texts.length);
      }),
    );
  });
});

describe('an object that nests too deeply', () => {
  let deep: Json = 'x';
  for (let i = 0; i < 100_000; i++) deep = i % 2 === 0 ? [deep] : { a: deep };
  const bomb = sample({ spec: { extra: deep } });

  it('is refused before anything walks through it', () => {
    for (const action of [(): unknown => create(bomb), (): unknown => apply(undefined, bomb)]) {
      const error = failure(action);
      assert.equal(error.code, 'HANSA_BAD_REQUEST');
      assert.match(error.message, /more than 1000 levels/);
    }
  });
});

describe('a write that changed nothing but times', () => {
  const entry = {
    manager: 'me',
    operation: 'Update',
    apiVersion,
    fieldsType: 'FieldsV1',
    fieldsV1: {},
  };
  const at = (second: number, spec: JsonObject = {}): JsonObject =>
    sample({ metadata: { managedFields: [{ ...entry, time: time(second) }] }, spec });

  it('keeps the old times, so that nothing changed at all', () => {
    assert.deepEqual(keepTimesIfUnchanged(at(1), at(2)), at(1));
  });

  it('is no such write when the object or its owners changed', () => {
    for (const next of [at(2, { title: 'x' }), sample({ spec: {} })]) {
      assert.equal(keepTimesIfUnchanged(at(1), next), next);
    }
    const renamed = sample({
      metadata: { managedFields: [{ ...entry, manager: 'you' }] },
      spec: {},
    });
    assert.equal(keepTimesIfUnchanged(at(1), renamed), renamed);
  });
});
