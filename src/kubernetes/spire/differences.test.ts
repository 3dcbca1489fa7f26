import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { differences } from './differences.ts';

suite('differences from a wanted object', () => {
  test('are none where the API server added defaults', () => {
    const wanted = {
      spec: { ports: [{ port: 1 }], selector: {} },
      metadata: { labels: { a: 'b' } },
    };
    const live = {
      spec: { ports: [{ port: 1, protocol: 'TCP' }], type: 'ClusterIP' },
      metadata: { labels: { a: 'b', c: 'd' }, uid: 'u' },
      status: {},
    };
    assert.deepEqual(differences(wanted, live), []);
  });

  test('are named by their paths', () => {
    const wanted = { spec: { ports: [{ port: 1 }], args: ['a'] }, data: { 'server.conf': 'x' } };
    const live = { spec: { ports: [{ port: 2 }], args: ['a', 'b'] }, data: {} };
    assert.deepEqual(differences(wanted, live), [
      'spec.ports[0].port',
      'spec.args',
      'data[server.conf]',
    ]);
  });

  test('are at most five', () => {
    assert.equal(differences({ a: 1, b: 1, c: 1, d: 1, e: 1, f: 1 }, {}).length, 5);
  });

  test('are none between a value and itself, and some after any change of a leaf', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        assert.deepEqual(differences(value, value), []);
        assert.deepEqual(differences({ value: 'a' }, { value }), value === 'a' ? [] : ['value']);
      }),
    );
  });
});
