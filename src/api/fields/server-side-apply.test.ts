import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import type { JsonObject } from '../object.ts';
import {
  anySpec,
  apiVersion,
  apply,
  create,
  entries,
  failure,
  owners,
  sample,
  update,
} from './conformance-sample.ts';

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
