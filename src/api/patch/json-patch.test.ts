import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import type { Json, JsonObject } from '../object.ts';
import { applyJsonPatch, decodeJsonPatch, maxOperations } from './json-patch.ts';

function patch(document: JsonObject, ...operations: readonly JsonObject[]): Json {
  return applyJsonPatch(document, decodeJsonPatch(operations, 'Ignore'));
}

function failure(action: () => unknown): HansaError {
  try {
    action();
  } catch (error) {
    assert.ok(error instanceof HansaError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: 'nothing was thrown' });
}

/** Why the patch was refused; the caller of the API sees kube-apiserver's general message only. */
function reason(document: JsonObject, ...operations: readonly JsonObject[]): string {
  const error = failure(() => patch(document, ...operations));
  assert.equal(error.code, 'HANSA_INVALID');
  assert.equal(error.message, 'the server rejected our request due to an error in our request');
  return (error.cause as Error).message;
}

describe('add', () => {
  it('sets a member, new or not', () => {
    assert.deepEqual(patch({}, { op: 'add', path: '/a', value: 1 }), { a: 1 });
    assert.deepEqual(patch({ a: 1 }, { op: 'add', path: '/a', value: { b: null } }), {
      a: { b: null },
    });
  });

  it('inserts into a list, at the end with a dash or the index behind the last', () => {
    const list = { l: ['a', 'b'] };
    const at = (path: string): Json =>
      (patch(list, { op: 'add', path, value: 'x' }) as JsonObject)['l'] as Json;
    assert.deepEqual(at('/l/0'), ['x', 'a', 'b']);
    assert.deepEqual(at('/l/1'), ['a', 'x', 'b']);
    assert.deepEqual(at('/l/2'), ['a', 'b', 'x']);
    assert.deepEqual(at('/l/-'), ['a', 'b', 'x']);
  });

  it('counts negative indices from behind the last item', () => {
    const list = { l: ['a', 'b'] };
    assert.deepEqual(patch(list, { op: 'add', path: '/l/-1', value: 'x' }), { l: ['a', 'b', 'x'] });
    assert.deepEqual(patch(list, { op: 'add', path: '/l/-3', value: 'x' }), { l: ['x', 'a', 'b'] });
  });

  it('fails where there is no such place', () => {
    for (const path of [
      '/l/3',
      '/l/-4',
      '/l/x',
      '/l/1.5',
      '/l/',
      '/n/a',
      '/s/a',
      '/nope/a',
      '',
      'a',
    ]) {
      assert.ok(reason({ l: ['a', 'b'], n: null, s: 'x' }, { op: 'add', path, value: 1 }), path);
    }
  });

  it('sets null where there is no value', () => {
    assert.deepEqual(patch({}, { op: 'add', path: '/a' }), { a: null });
  });
});

describe('remove', () => {
  it('takes a member or an item away', () => {
    assert.deepEqual(patch({ a: 1, b: 2 }, { op: 'remove', path: '/a' }), { b: 2 });
    assert.deepEqual(patch({ l: [1, 2, 3] }, { op: 'remove', path: '/l/1' }), { l: [1, 3] });
    assert.deepEqual(patch({ l: [1, 2, 3] }, { op: 'remove', path: '/l/-1' }), { l: [1, 2] });
  });

  it('fails where there is nothing', () => {
    for (const path of ['/nope', '/l/1', '/l/-2', '/l/-', '/nope/x', '']) {
      assert.ok(reason({ l: [1] }, { op: 'remove', path }), path);
    }
  });
});

describe('replace', () => {
  it('sets a member even where there was none, as kube-apiserver does', () => {
    assert.deepEqual(patch({ a: 1 }, { op: 'replace', path: '/a', value: 2 }), { a: 2 });
    assert.deepEqual(patch({}, { op: 'replace', path: '/a', value: 2 }), { a: 2 });
  });

  it('sets an item that is there, and no other', () => {
    assert.deepEqual(patch({ l: [1, 2] }, { op: 'replace', path: '/l/-1', value: 3 }), {
      l: [1, 3],
    });
    assert.ok(reason({ l: [1] }, { op: 'replace', path: '/l/1', value: 3 }));
    assert.ok(reason({ l: [1] }, { op: 'replace', path: '/l/-', value: 3 }));
  });

  it('replaces the whole document, by an object or a list only', () => {
    assert.deepEqual(patch({ a: 1 }, { op: 'replace', path: '', value: { b: 2 } }), { b: 2 });
    assert.deepEqual(patch({ a: 1 }, { op: 'replace', path: '', value: [1] }), [1]);
    assert.ok(reason({ a: 1 }, { op: 'replace', path: '', value: 'x' }));
  });
});

describe('move and copy', () => {
  it('carry a value to another place', () => {
    assert.deepEqual(patch({ a: { b: 1 }, c: {} }, { op: 'move', from: '/a/b', path: '/c/d' }), {
      a: {},
      c: { d: 1 },
    });
    assert.deepEqual(patch({ l: [1, 2, 3] }, { op: 'move', from: '/l/0', path: '/l/2' }), {
      l: [2, 3, 1],
    });
    assert.deepEqual(patch({ a: [1] }, { op: 'copy', from: '/a', path: '/b' }), { a: [1], b: [1] });
  });

  it('leave a copy alone when the original changes afterwards, and the other way round', () => {
    assert.deepEqual(
      patch(
        { a: {} },
        { op: 'add', path: '/a/x', value: 1 },
        { op: 'copy', from: '/a', path: '/b' },
        { op: 'add', path: '/a/y', value: 2 },
        { op: 'add', path: '/b/z', value: 3 },
      ),
      { a: { x: 1, y: 2 }, b: { x: 1, z: 3 } },
    );
  });

  it('fail where there is nothing to move, and copy it as null', () => {
    assert.ok(reason({}, { op: 'move', from: '/a', path: '/b' }));
    assert.deepEqual(patch({}, { op: 'copy', from: '/a', path: '/b' }), { b: null });
    assert.ok(reason({ l: [] }, { op: 'copy', from: '/l/0', path: '/b' }));
  });

  it('fail to move a value into itself', () => {
    assert.ok(reason({ a: { b: {} } }, { op: 'move', from: '/a', path: '/a/b/c' }));
  });

  it('copy no more than 3 MiB in all', () => {
    const copies = Array.from({ length: 30 }, () => ({ op: 'copy', from: '/a', path: '/a/-' }));
    assert.match(reason({ a: ['x'.repeat(100)] }, ...copies), /accumulated size/);
  });
});

describe('test', () => {
  const document = { s: 'x', n: null, o: { a: [1, { b: 2 }] } };

  it('passes where the value is the same, whatever the order of members', () => {
    const same: JsonObject[] = [
      { op: 'test', path: '/s', value: 'x' },
      { op: 'test', path: '/o', value: { a: [1, { b: 2 }] } },
      { op: 'test', path: '', value: { o: { a: [1, { b: 2 }] }, n: null, s: 'x' } },
    ];
    assert.deepEqual(patch(document, ...same), document);
  });

  it('takes a missing member for null', () => {
    patch(document, { op: 'test', path: '/n', value: null }, { op: 'test', path: '/nope' });
  });

  it('fails where the value is another', () => {
    for (const operation of [
      { op: 'test', path: '/s', value: 'y' },
      { op: 'test', path: '/s' },
      { op: 'test', path: '/n', value: 0 },
      { op: 'test', path: '/o/a', value: [1] },
      { op: 'test', path: '/o/a/1/b', value: '2' },
      { op: 'test', path: '/nope/x', value: 1 },
      { op: 'test', path: '', value: {} },
    ]) {
      assert.ok(reason(document, operation), JSON.stringify(operation));
    }
  });
});

describe('a path', () => {
  it('unescapes ~1 and ~0, each once', () => {
    const document = { 'a/b': 1, 'm~n': 2, '~1': 3, '': 4 };
    for (const [path, value] of [
      ['/a~1b', 1],
      ['/m~0n', 2],
      ['/~01', 3],
      ['/', 4],
    ] as const) {
      patch(document, { op: 'test', path, value });
    }
  });

  it('may lack its slash, as with kube-apiserver', () => {
    assert.deepEqual(patch({}, { op: 'add', path: 'x/a', value: 1 }), { a: 1 });
  });

  it('reaches own members only: __proto__ and constructor are names like others', () => {
    const result = patch(
      {},
      { op: 'add', path: '/__proto__', value: { polluted: true } },
      { op: 'add', path: '/__proto__/more', value: 1 },
      { op: 'add', path: '/constructor', value: {} },
      { op: 'add', path: '/constructor/prototype', value: { polluted: true } },
    );
    assert.equal(
      JSON.stringify(result),
      '{"__proto__":{"polluted":true,"more":1},"constructor":{"prototype":{"polluted":true}}}',
    );
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
    assert.ok(reason({}, { op: 'add', path: '/__proto__/x', value: 1 }));
    assert.ok(reason({}, { op: 'add', path: '/constructor/prototype/x', value: 1 }));
    assert.ok(reason({ l: [] }, { op: 'remove', path: '/l/length' }));
  });
});

describe('decoding a patch', () => {
  const message = (document: Json, validation: 'Ignore' | 'Warn'): string => {
    const error = failure(() => decodeJsonPatch(document, validation));
    assert.equal(error.code, 'HANSA_BAD_REQUEST');
    return error.message;
  };

  it('refuses what is no list of operations, in the words of kube-apiserver', () => {
    assert.equal(
      message({}, 'Warn'),
      'error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp',
    );
    assert.equal(
      message({}, 'Ignore'),
      'json: cannot unmarshal object into Go value of type jsonpatch.Patch',
    );
    assert.equal(
      message(['x'], 'Warn'),
      'error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp',
    );
    assert.equal(
      message([{ op: 1 }], 'Warn'),
      'error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string',
    );
  });

  it('names members that mean nothing', () => {
    const { unknownFields } = decodeJsonPatch([{ op: 'test', path: '/a', val: 1 }], 'Warn');
    assert.deepEqual(unknownFields, ['json patch unknown field "[0].val"']);
  });

  it('refuses more operations than the limit', () => {
    const operation = { op: 'add', path: '/a', value: 1 };
    const many = (count: number): Json => Array.from({ length: count }, () => operation);
    patch({}, ...decodeJsonPatch(many(maxOperations), 'Warn').operations.map((each) => each ?? {}));
    const error = failure(() => decodeJsonPatch(many(maxOperations + 1), 'Warn'));
    assert.equal(error.code, 'HANSA_TOO_LARGE');
    assert.equal(
      error.message,
      'Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001',
    );
  });

  it('refuses to shift a long list again and again', () => {
    const document = { l: Array.from({ length: 100_000 }, () => 0) };
    const many = (count: number): Json =>
      applyJsonPatch(
        document,
        decodeJsonPatch(
          Array.from({ length: count }, () => ({ op: 'add', path: '/l/0', value: 0 })),
          'Warn',
        ),
      );
    assert.equal(((many(300) as JsonObject)['l'] as Json[]).length, 100_300);
    assert.equal(failure(() => many(500)).code, 'HANSA_TOO_LARGE');
    assert.equal(document.l.length, 100_000);
  });

  it('leaves operations without a known op or path to fail when applied', () => {
    for (const bad of [{}, { op: 'nope', path: '/a' }, { op: 'add' }, { op: 'move', path: '/a' }]) {
      assert.ok(reason({}, bad));
    }
    assert.ok(failure(() => applyJsonPatch({}, decodeJsonPatch([null], 'Warn'))));
    assert.deepEqual(applyJsonPatch({ a: 1 }, decodeJsonPatch(null, 'Warn')), { a: 1 });
  });
});

describe('any patch', () => {
  it('that nests a document too deeply is refused, whether at once or step by step', () => {
    let deep: Json = 'x';
    for (let i = 0; i < 100_000; i++) deep = { a: deep };
    const sent = [{ op: 'add', path: '/a', value: deep }];
    assert.equal(failure(() => decodeJsonPatch(sent, 'Warn')).code, 'HANSA_BAD_REQUEST');
    const steps = Array.from({ length: 5000 }, () => [
      { op: 'add', path: '/b', value: {} },
      { op: 'move', from: '/a', path: '/b/a' },
      { op: 'move', from: '/b', path: '/a' },
    ]).flat();
    const error = failure(() => patch({ a: {} }, ...steps.slice(0, 9999)));
    assert.equal(error.code, 'HANSA_BAD_REQUEST');
  });

  it('never changes its input', () => {
    const path = fc.constantFrom('/a', '/a/b', '/a/0', '/a/-', '/b', '/b/c', '/b/c/0', '');
    const operation = fc.record({
      op: fc.constantFrom('add', 'remove', 'replace', 'move', 'copy', 'test'),
      path,
      from: path,
      value: fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>,
    });
    const start = { a: [1, { b: 2 }], b: { c: [3] } };
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 8 }), (operations) => {
        const before = JSON.stringify([start, operations]);
        try {
          patch(start, ...(operations as unknown as JsonObject[]));
        } catch (error) {
          assert.ok(error instanceof HansaError);
        }
        assert.equal(JSON.stringify([start, operations]), before);
      }),
    );
  });
});
