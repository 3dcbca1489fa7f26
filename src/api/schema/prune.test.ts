import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { optional, s } from './dsl.ts';
import { prune } from './prune.ts';

const rule = s.object({
  description: 'A rule.',
  fields: {
    kinds: optional(
      s.list({
        description: 'Kinds.',
        listType: 'atomic',
        items: s.string({ description: 'A kind.' }),
      }),
    ),
  },
});

const schema = s.object({
  description: 'A thing.',
  fields: {
    spec: optional(
      s.object({
        description: 'Spec.',
        fields: {
          name: optional(s.string({ description: 'Name.' })),
          size: optional(s.integer({ description: 'Size.', default: 3 })),
          rules: optional(s.list({ description: 'Rules.', listType: 'atomic', items: rule })),
          limits: optional(s.map({ description: 'Limits.', values: rule })),
          extra: optional(s.any({ description: 'Extra.' })),
        },
      }),
    ),
  },
});

suite('pruning', () => {
  test('drops unknown fields and names them as kube-apiserver does', () => {
    const value = {
      top: 1,
      spec: { name: 'a', foo: 1, rules: [{ kinds: ['A'], x: 1 }], limits: { cpu: { y: {} } } },
    };
    assert.deepEqual(prune(schema, value), {
      value: { spec: { name: 'a', rules: [{ kinds: ['A'] }], limits: { cpu: {} } } },
      unknown: ['spec.foo', 'spec.limits.cpu.y', 'spec.rules[0].x', 'top'],
    });
  });

  test('keeps everything below a field that may hold anything, nulls too', () => {
    const value = { spec: { extra: { a: null, b: [{ c: null }] } } };
    assert.equal(prune(schema, value).value, value);
    assert.deepEqual(prune(schema, { spec: { extra: null } }).value, { spec: { extra: null } });
  });

  test('drops nulls without a name, but leaves those that a default will replace', () => {
    const pruned = prune(schema, { spec: { name: null, size: null, limits: { a: null } } });
    assert.deepEqual(pruned, { value: { spec: { size: null, limits: {} } }, unknown: [] });
  });

  test('knows nothing below a value of a wrong type', () => {
    const pruned = prune(schema, { spec: { name: { a: 1 }, rules: { b: 1 }, size: [[{ c: 1 }]] } });
    assert.deepEqual(pruned.unknown, ['spec.name.a', 'spec.rules.b', 'spec.size[0][0].c']);
    assert.deepEqual(prune(schema, { spec: [{ name: 'a' }] }).unknown, ['spec[0].name']);
  });

  test('gives back the same value where nothing is dropped', () => {
    const value = { spec: { rules: [{ kinds: ['A'] }], limits: { a: {} } } };
    assert.equal(prune(schema, value).value, value);
  });

  test('drops a field that is named like a part of every JavaScript object', () => {
    const value = JSON.parse('{"spec": {"__proto__": {"a": 1}, "constructor": 1}}') as unknown;
    const pruned = prune(schema, value);
    assert.deepEqual(pruned.unknown, ['spec.__proto__', 'spec.constructor']);
    assert.deepEqual(pruned.value, { spec: {} });
    const limits = JSON.parse('{"spec": {"limits": {"__proto__": {"z": 1}}}}') as unknown;
    assert.deepEqual(prune(schema, limits).unknown, ['spec.limits.__proto__.z']);
    assert.equal(Object.getPrototypeOf({}), Object.prototype);
  });

  test('never changes its input, and pruned twice nothing is unknown', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const spec = { spec: value, rules: value };
        const before = structuredClone(spec);
        const once = prune(schema, spec);
        assert.deepEqual(spec, before);
        const twice = prune(schema, once.value);
        assert.deepEqual(twice, { value: once.value, unknown: [] });
        assert.equal(twice.value, once.value);
      }),
    );
  });

  test('an object of which nearly everything is unknown is pruned', () => {
    const value = Object.fromEntries(Array.from({ length: 200_000 }, (_, at) => [`u${at}`, 1]));
    const { value: pruned, unknown } = prune(schema, { ...value, spec: {} });
    assert.deepEqual(Object.keys(pruned as object), ['spec']);
    assert.equal(unknown.length, 200_000);
  });
});
