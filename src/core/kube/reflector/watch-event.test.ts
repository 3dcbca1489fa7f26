import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { MalformedError, parseWatchEvent, versionedObject } from './watch-event.ts';

const parse = (value: unknown): unknown =>
  parseWatchEvent(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)), 1000);
const objectWith = (metadata: object): object => ({ apiVersion: 'v1', kind: 'Pod', metadata });

suite('a watch event', () => {
  test('has the key and the version of its object', () => {
    const object = objectWith({ name: 'a', namespace: 'b', resourceVersion: '12' });
    for (const type of ['ADDED', 'MODIFIED', 'DELETED']) {
      const bytes = JSON.stringify({ type, object }).length;
      assert.deepEqual(parse({ type, object }), { type, key: 'b/a', version: '12', object, bytes });
    }
    const node = objectWith({ name: 'a', resourceVersion: '12' });
    assert.equal(versionedObject(node)?.key, 'a');
  });

  test('can be a bookmark, which may end the initial events', () => {
    const bookmark = (annotations?: object): unknown =>
      parse({ type: 'BOOKMARK', object: objectWith({ resourceVersion: '7', annotations }) });
    assert.deepEqual(bookmark(), { type: 'BOOKMARK', version: '7', isInitialEnd: false });
    const last = bookmark({ 'k8s.io/initial-events-end': 'true' });
    assert.deepEqual(last, { type: 'BOOKMARK', version: '7', isInitialEnd: true });
  });

  test('can be an error, whose code is a status of HTTP', () => {
    const status = { kind: 'Status', code: 410 };
    assert.deepEqual(parse({ type: 'ERROR', object: status }), {
      type: 'ERROR',
      code: 410,
      status,
    });
    for (const object of [null, 'x', {}, { code: 7 }, { code: '410' }, { code: 1e9 }]) {
      assert.equal((parse({ type: 'ERROR', object }) as { code: number }).code, 500);
    }
  });

  for (const [what, value] of [
    ['text', '<html>'],
    ['half of an event', '{"type":"ADDED","obj'],
    ['no object', 'null'],
    ['a list', '[]'],
    ['an unknown type', { type: 'CHANGED', object: objectWith({}) }],
    ['no type', { object: objectWith({ name: 'a', resourceVersion: '1' }) }],
    ['no object in it', { type: 'ADDED' }],
    ['no name', { type: 'ADDED', object: objectWith({ resourceVersion: '1' }) }],
    ['an empty name', { type: 'ADDED', object: objectWith({ name: '', resourceVersion: '1' }) }],
    [
      'a name with the key of another object',
      { type: 'ADDED', object: objectWith({ name: 'a/b', resourceVersion: '1' }) },
    ],
    [
      'a namespace that is no text',
      { type: 'ADDED', object: objectWith({ name: 'a', namespace: 1, resourceVersion: '1' }) },
    ],
    ['no version', { type: 'MODIFIED', object: objectWith({ name: 'a' }) }],
    ['version 0', { type: 'ADDED', object: objectWith({ name: 'a', resourceVersion: '0' }) }],
    [
      'a version as number',
      { type: 'ADDED', object: objectWith({ name: 'a', resourceVersion: 1 }) },
    ],
    ['a bookmark without version', { type: 'BOOKMARK', object: objectWith({}) }],
    ['a bookmark of nothing', { type: 'BOOKMARK' }],
    ['too many values', JSON.stringify({ type: 'ADDED', object: Array(2000).fill(1) })],
  ] as const) {
    test(`is refused with ${what}`, () => {
      assert.throws(() => parse(value), MalformedError);
    });
  }

  // Transforms walk objects recursively. The limit of values decides which lines are short.
  for (const type of ['ADDED', 'ERROR']) {
    for (const [levels, maxValues] of [
      [600, 100_000],
      [600, 1000],
      [20_000, 100_000],
    ] as const) {
      test(`${type} with ${levels} levels is refused, with at most ${maxValues} values`, () => {
        const deep = '['.repeat(levels) + ']'.repeat(levels);
        const metadata = '{"name":"a","resourceVersion":"1"}';
        const object = `{"apiVersion":"v1","kind":"Pod","code":410,"metadata":${metadata},"data":${deep}}`;
        const line = Buffer.from(`{"type":"${type}","object":${object}}`);
        assert.throws(() => parseWatchEvent(line, maxValues), MalformedError);
      });
    }
  }

  test('does not show its text in the error', () => {
    assert.throws(
      () => parse('{"password": hunter2}'),
      (caught: Error) => !caught.message.includes('hunter2'),
    );
  });
});
