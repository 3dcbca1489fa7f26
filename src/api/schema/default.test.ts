import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { applyDefaults } from './default.ts';
import { optional, required, s } from './dsl.ts';

const schema = s.object({
  description: 'A thing.',
  fields: {
    size: optional(s.integer({ description: 'Size.', default: 3 })),
    plain: optional(s.string({ description: 'Plain.' })),
    nested: optional(
      s.object({
        description: 'Nested.',
        fields: { mode: optional(s.string({ description: 'Mode.', default: 'auto' })) },
      }),
    ),
    always: optional(
      s.object({
        description: 'Always there.',
        default: {},
        fields: { level: optional(s.integer({ description: 'Level.', default: 1 })) },
      }),
    ),
    ports: optional(
      s.list({
        description: 'Ports.',
        listType: 'atomic',
        items: s.object({
          description: 'A port.',
          fields: {
            name: required(s.string({ description: 'Name.' })),
            protocol: optional(s.string({ description: 'Protocol.', default: 'TCP' })),
          },
        }),
      }),
    ),
    limits: optional(
      s.map({
        description: 'Limits.',
        values: s.object({
          description: 'A limit.',
          fields: { unit: optional(s.string({ description: 'Unit.', default: 's' })) },
        }),
      }),
    ),
  },
});

suite('defaults', () => {
  test('fill what is missing or null, and leave what is there', () => {
    assert.deepEqual(applyDefaults(schema, {}), { size: 3, always: { level: 1 } });
    assert.deepEqual(applyDefaults(schema, { size: null, always: { level: 2 } }), {
      size: 3,
      always: { level: 2 },
    });
    assert.deepEqual(applyDefaults(schema, { size: 0, always: {} }), {
      size: 0,
      always: { level: 1 },
    });
  });

  test('do not make an object that has no default itself', () => {
    assert.equal('nested' in (applyDefaults(schema, {}) as object), false);
    assert.deepEqual((applyDefaults(schema, { nested: {} }) as { nested: unknown }).nested, {
      mode: 'auto',
    });
  });

  test('reach into lists and maps', () => {
    const value = applyDefaults(schema, { ports: [{ name: 'a' }], limits: { cpu: {} } });
    assert.deepEqual(value, {
      size: 3,
      always: { level: 1 },
      ports: [{ name: 'a', protocol: 'TCP' }],
      limits: { cpu: { unit: 's' } },
    });
  });

  test('share what did not change, and give back the same value where nothing did', () => {
    const whole = { size: 1, always: { level: 1 }, ports: [{ name: 'a', protocol: 'UDP' }] };
    assert.equal(applyDefaults(schema, whole), whole);
    const ports = [{ name: 'a', protocol: 'UDP' }];
    const value = applyDefaults(schema, { ports }) as { ports: unknown };
    assert.equal(value.ports, ports);
  });

  test('pass over values of a wrong type', () => {
    for (const value of [null, 'x', 5, [1], { nested: 'x', ports: {}, limits: [] }]) {
      assert.doesNotThrow(() => applyDefaults(schema, value));
    }
    assert.equal(applyDefaults(schema, 'x'), 'x');
  });

  test('never change their input, and applied twice change nothing more', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (nested, ports) => {
        const value = { nested, ports: [ports], limits: { a: nested }, always: ports };
        const before = structuredClone(value);
        const once = applyDefaults(schema, value);
        assert.deepEqual(value, before);
        assert.equal(applyDefaults(schema, once), once);
      }),
    );
  });
});
