import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import type { Json, JsonObject, ManagedFieldsEntry } from '../object.ts';
import { decodeFieldsV1 } from './fields-v1.ts';
import { listPaths } from './field-set.ts';
import { keepTimesIfUnchanged, recordUpdate, serverSideApply } from './ownership.ts';
import { printPath } from './path-element.ts';
import { anySpec, apiVersion, kind, sample, sampleSchema } from './sample-schema.ts';

const time = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`;
const common = { schema: sampleSchema, apiVersion, kind, timeIso: time(0) };

interface Options {
  readonly manager?: string;
  readonly at?: number;
  readonly subresource?: 'status';
  readonly force?: boolean;
}

function context({ manager = 'me', at = 0, subresource }: Options) {
  return {
    ...common,
    manager,
    timeIso: time(at),
    ...(subresource === undefined ? {} : { subresource }),
  };
}

/** What the server does around a create: it gives the object a uid. */
function create(next: JsonObject, options: Options = {}): JsonObject {
  return withUid(recordUpdate({ ...context(options), live: undefined, next }));
}

function withUid(object: JsonObject): JsonObject {
  return { ...object, metadata: { ...(object['metadata'] as JsonObject), uid: 'u' } };
}

function update(live: JsonObject, next: JsonObject, options: Options = {}): JsonObject {
  return recordUpdate({ ...context(options), live, next });
}

function apply(
  live: JsonObject | undefined,
  applied: JsonObject,
  options: Options = {},
): JsonObject {
  const object = serverSideApply({
    ...context(options),
    live,
    applied,
    force: options.force ?? false,
  });
  return withUid(object);
}

function entries(object: JsonObject): readonly ManagedFieldsEntry[] {
  const metadata = object['metadata'] as unknown as {
    managedFields?: readonly ManagedFieldsEntry[];
  };
  return metadata.managedFields ?? [];
}

/** Who owns what, one line an entry: `me Update: .spec.title`. */
function owners(object: JsonObject): string[] {
  return entries(object).map((entry) => {
    const paths = listPaths(decodeFieldsV1(entry.fieldsV1)).map(printPath).join(' ');
    const where = entry.subresource === undefined ? '' : `/${entry.subresource}`;
    return `${entry.manager} ${entry.operation}${where}: ${paths}`;
  });
}

function failure(action: () => unknown): HansaError {
  try {
    action();
  } catch (error) {
    assert.ok(error instanceof HansaError);
    return error;
  }
  throw new assert.AssertionError({ message: 'nothing was thrown' });
}

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
      const object = recordUpdate({ ...context({}), live: undefined, next: sample({ spec }) });
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

describe('server-side apply', () => {
  it('creates what is not there, and owns what it said', () => {
    const object = apply(
      undefined,
      sample({ metadata: { labels: { a: 'b' } }, spec: { title: 't' } }),
    );
    assert.deepEqual(object['spec'], { title: 't' });
    assert.deepEqual(owners(object), ['me Apply: .metadata.labels.a .spec.title']);
  });

  it('removes what the manager no longer says and nobody else owns', () => {
    const first = apply(undefined, sample({ spec: { title: 't', size: 1, tags: ['a', 'b'] } }));
    const second = apply(first, sample({ spec: { title: 't', tags: ['b'] } }), { at: 5 });
    assert.deepEqual(second['spec'], { title: 't', tags: ['b'] });
    assert.deepEqual(owners(second), ['me Apply: .spec.title .spec.tags[="b"]']);
  });

  it('keeps what another manager owns as well', () => {
    const first = apply(undefined, sample({ spec: { title: 't', size: 1 } }));
    const second = apply(first, sample({ spec: { size: 1 } }), { manager: 'you' });
    const third = apply(second, sample({ spec: { title: 't' } }), { at: 1 });
    assert.deepEqual(third['spec'], { title: 't', size: 1 });
    assert.deepEqual(owners(third), ['you Apply: .spec.size', 'me Apply: .spec.title']);
  });

  it('refuses to change what another manager owns, and names it', () => {
    const live = create(sample({ spec: { title: 'a' } }), { manager: 'kubectl-client-side-apply' });
    const error = failure(() => apply(live, sample({ spec: { title: 'b' } })));
    assert.equal(error.code, 'HANSA_CONFLICT');
    assert.equal(
      error.message,
      `Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using ${apiVersion}: .spec.title`,
    );
    assert.deepEqual(error.details?.causes, [
      {
        reason: 'FieldManagerConflict',
        message: `conflict with "kubectl-client-side-apply" using ${apiVersion}`,
        field: '.spec.title',
      },
    ]);
  });

  it('lists several conflicts by manager', () => {
    let live = create(
      sample({ spec: { title: 'a', tags: ['x'], ports: [{ name: 'p', port: 1 }] } }),
    );
    live = apply(live, sample({ spec: { size: 1 } }), { manager: 'you' });
    const config = { title: 'b', size: 2, ports: [{ name: 'p', port: 2 }] };
    const error = failure(() => apply(live, sample({ spec: config }), { manager: 'third' }));
    assert.equal(
      error.message,
      [
        `Apply failed with 3 conflicts: conflicts with "me" using ${apiVersion}:`,
        '- .spec.title',
        '- .spec.ports[name="p",protocol="TCP"].port',
        'conflicts with "you":',
        '- .spec.size',
      ].join('\n'),
    );
    assert.equal(error.details?.causes?.length, 3);
  });

  it('says when a conflict is with a writer of the status', () => {
    const created = create(sample({ spec: { title: 'a' } }));
    const live = update(created, sample({ status: { phase: 'a' } }), {
      manager: 'controller',
      subresource: 'status',
    });
    const error = failure(() =>
      apply(live, sample({ status: { phase: 'b' } }), { subresource: 'status' }),
    );
    assert.match(error.message, /conflict with "controller" with subresource "status" using /);
  });

  it('takes fields over with force', () => {
    const live = create(sample({ spec: { title: 'a', size: 1 } }));
    const next = apply(live, sample({ spec: { title: 'b' } }), { manager: 'you', force: true });
    assert.deepEqual(next['spec'], { title: 'b', size: 1 });
    assert.deepEqual(owners(next), ['you Apply: .spec.title', 'me Update: .spec .spec.size']);
  });

  it('shares a field that it wants as it is', () => {
    const live = create(sample({ spec: { title: 'a' } }));
    const next = apply(live, sample({ spec: { title: 'a' } }), { manager: 'you', at: 9 });
    assert.deepEqual(owners(next), ['you Apply: .spec.title', 'me Update: .spec .spec.title']);
    // Nothing of the object changed, so kube-apiserver gives the new entry no time.
    assert.equal(entries(next)[0]?.time, undefined);
  });

  it('gives items of a list to whoever applied them', () => {
    const first = apply(undefined, sample({ spec: { ports: [{ name: 'a', port: 1 }] } }));
    const second = apply(first, sample({ spec: { ports: [{ name: 'b', port: 2 }] } }), {
      manager: 'you',
    });
    const third = apply(second, sample({ spec: { ports: [] } }));
    assert.deepEqual(third['spec'], { ports: [{ name: 'b', port: 2 }] });
  });

  it('owns an item whose defaulted key it does not say', () => {
    const object = apply(undefined, sample({ spec: { ports: [{ name: 'a' }] } }));
    assert.deepEqual(owners(object), [
      'me Apply: .spec.ports[name="a",protocol="TCP"] .spec.ports[name="a",protocol="TCP"].name',
    ]);
  });

  it('ignores the status at the main endpoint, and all else at the status endpoint', () => {
    const live = apply(undefined, sample({ spec: { title: 'a' }, status: { phase: 'x' } }));
    assert.deepEqual(owners(live), ['me Apply: .spec.title']);
    const next = apply(live, sample({ spec: { title: 'b' }, status: { phase: 'y' } }), {
      manager: 'you',
      subresource: 'status',
    });
    assert.deepEqual(owners(next), ['me Apply: .spec.title', 'you Apply/status: .status.phase']);
  });

  it('refuses another kind or version', () => {
    const other = { ...sample({}), kind: 'Other' };
    const error = failure(() => apply(undefined, other));
    assert.equal(error.code, 'HANSA_BAD_REQUEST');
    assert.equal(error.message, `invalid object type: ${apiVersion}, Kind=Other`);
    assert.equal(
      failure(() => apply(undefined, { spec: {} })).message,
      'invalid object type: /, Kind=',
    );
  });

  it('refuses managedFields in the configuration', () => {
    const error = failure(() => apply(undefined, sample({ metadata: { managedFields: [] } })));
    assert.equal(error.code, 'HANSA_BAD_REQUEST');
    assert.equal(error.message, 'metadata.managedFields must be nil');
  });

  it('refuses a configuration that does not fit the schema', () => {
    const error = failure(() => apply(undefined, sample({ spec: { nope: 1 } })));
    assert.equal(error.code, 'HANSA_APPLY_MISMATCH');
    assert.equal(
      error.message,
      `failed to create typed patch object (/x; ${apiVersion}, Kind=Sample): .spec.nope: field not declared in schema`,
    );
  });

  it('is a no-op the second time, times included', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (before, spec) => {
        const live = create(sample({ spec: before }));
        const once = apply(live, sample({ spec }), { manager: 'you', force: true, at: 1 });
        const twice = apply(once, sample({ spec }), { manager: 'you', at: 2 });
        assert.deepEqual(twice, once);
      }),
    );
  });

  it('undoes exactly itself when an empty configuration follows', () => {
    fc.assert(
      fc.property(anySpec, (spec) => {
        const once = apply(undefined, sample({ spec }), { manager: 'you' });
        const gone = apply(once, sample({}), { manager: 'you' });
        assert.deepEqual(owners(gone), []);
      }),
    );
  });

  it('conflicts, or changes nothing that others own', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (before, spec) => {
        const live = create(sample({ spec: before }));
        let next: JsonObject;
        try {
          next = apply(live, sample({ spec }), { manager: 'you' });
        } catch (error) {
          assert.ok(error instanceof HansaError && error.code === 'HANSA_CONFLICT');
          return;
        }
        assert.equal(owners(next).at(-1), owners(live)[0]);
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

describe('kubectl, from client-side to server-side apply', () => {
  const annotation = 'kubectl.kubernetes.io/last-applied-configuration';
  const clientSide = (spec: JsonObject): JsonObject => {
    const config = sample({ spec });
    const annotations = { [annotation]: JSON.stringify(config) };
    return create(sample({ metadata: { annotations }, spec }), {
      manager: 'kubectl-client-side-apply',
    });
  };

  it('takes over without a conflict what the annotation vouches for', () => {
    const live = clientSide({ title: 'a', size: 1 });
    const next = apply(live, sample({ spec: { title: 'b' } }), { manager: 'kubectl' });
    assert.deepEqual(next['spec'], { title: 'b', size: 1 });
    const { annotations } = next['metadata'] as { annotations: Record<string, string> };
    assert.equal(
      annotations[annotation],
      `{"apiVersion":"${apiVersion}","kind":"Sample","metadata":{"name":"x"},"spec":{"title":"b"}}\n`,
    );
  });

  it('does so for kubectl only', () => {
    const live = clientSide({ title: 'a' });
    assert.equal(
      failure(() => apply(live, sample({ spec: { title: 'b' } }), { manager: 'flux' })).code,
      'HANSA_CONFLICT',
    );
  });

  it('still conflicts about what was changed since', () => {
    const live = update(
      clientSide({ title: 'a', size: 1 }),
      { ...clientSide({ title: 'a', size: 1 }), spec: { title: 'edited', size: 1 } },
      { manager: 'kubectl-edit' },
    );
    const error = failure(() =>
      apply(live, sample({ spec: { title: 'b', size: 2 } }), { manager: 'kubectl' }),
    );
    assert.equal(
      error.message,
      `Apply failed with 1 conflict: conflict with "kubectl-edit" using ${apiVersion}: .spec.title`,
    );
  });

  it('believes no annotation that cannot be read', () => {
    for (const text of ['junk', '[]', '{}', `{"apiVersion":"x/v1","kind":"Sample"}`, '[[[[']) {
      const live = create(
        sample({ metadata: { annotations: { [annotation]: text } }, spec: { title: 'a' } }),
      );
      assert.equal(
        failure(() => apply(live, sample({ spec: { title: 'b' } }), { manager: 'kubectl' })).code,
        'HANSA_CONFLICT',
      );
    }
  });

  it('drops the annotation rather than let annotations grow past their limit', () => {
    const live = clientSide({ title: 'a' });
    const title = 'x'.repeat(300_000);
    const next = apply(live, sample({ spec: { title } }), { manager: 'kubectl' });
    const { annotations } = next['metadata'] as { annotations: JsonObject };
    assert.deepEqual(annotations, {});
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
