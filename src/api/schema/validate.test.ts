import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { optional, required, s } from './dsl.ts';
import { type FieldError, mostErrors } from './field-error.ts';
import type { Schema } from './schema.ts';
import { validateRest, validateStructure } from './validate.ts';

const description = 'For the test.';
const object = (fields: Record<string, { schema: Schema; required: boolean }>): Schema =>
  s.object({ description, fields });

/** All that is asked of a value, in the order in which a server asks. */
function validate(schema: Schema, value: unknown, old?: unknown): FieldError[] {
  const errors = validateStructure(schema, value, old);
  validateRest(schema, value, old, errors);
  return errors;
}

/** The errors of one field `x` below `spec`, as kube-apiserver prints them. */
function errorsOf(x: Schema, value: unknown): string[] {
  const schema = object({ spec: optional(object({ x: optional(x) })) });
  return validate(schema, { spec: { x: value } }).map(
    (error) => `${error.field}: ${error.message}`,
  );
}

suite('strings', () => {
  test('have the type string', () => {
    assert.deepEqual(errorsOf(s.string({ description }), 5), [
      'spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer"',
    ]);
    assert.deepEqual(errorsOf(s.string({ description }), null), [
      'spec.x: Invalid value: "null": spec.x in body must be of type string: "null"',
    ]);
  });

  test('have a length in characters, not in bytes or UTF-16 units', () => {
    const x = s.string({ description, minLength: 2, maxLength: 3 });
    assert.deepEqual(errorsOf(x, '💚💚💚'), []);
    assert.deepEqual(errorsOf(x, 'éééé'), ['spec.x: Too long: may not be more than 3 bytes']);
    assert.deepEqual(errorsOf(x, '💚'), [
      'spec.x: Invalid value: "💚": spec.x in body should be at least 2 chars long',
    ]);
  });

  test('match their pattern', () => {
    assert.deepEqual(errorsOf(s.string({ description, pattern: '^[a-z]+$' }), 'A"'), [
      `spec.x: Invalid value: "A\\"": spec.x in body should match '^[a-z]+$'`,
    ]);
    const hinted = s.string({ description, pattern: '^[a-z]+$', hint: 'write small letters' });
    assert.deepEqual(errorsOf(hinted, 'A'), ['spec.x: Invalid value: "A": write small letters']);
  });

  test('are one of an enumeration, and of its type', () => {
    const x = s.string({ description, enum: ['a', 'b'] });
    assert.deepEqual(errorsOf(x, 'c'), [
      'spec.x: Unsupported value: "c": supported values: "a", "b"',
    ]);
    assert.deepEqual(errorsOf(x, 5), [
      'spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer"',
      'spec.x: Unsupported value: 5: supported values: "a", "b"',
    ]);
  });

  test('are a date and time where they have that format', () => {
    const x = s.time({ description });
    assert.deepEqual(errorsOf(x, '2026-01-02T03:04:05Z'), []);
    assert.deepEqual(errorsOf(x, 'soon'), [
      'spec.x: Invalid value: "soon": spec.x in body must be of type date-time: "soon"',
    ]);
    assert.deepEqual(errorsOf(x, '\u0007'), [
      'spec.x: Invalid value: "\\a": spec.x in body must be of type date-time: "\\a"',
    ]);
    assert.deepEqual(errorsOf(x, 5), [
      'spec.x: Invalid value: "int64": spec.x in body must be of type date-time: "int64"',
    ]);
    assert.deepEqual(errorsOf(x, []), [
      'spec.x: Invalid value: "array": spec.x in body must be of type string: "array"',
    ]);
  });
});

suite('integers', () => {
  test('are whole', () => {
    assert.deepEqual(errorsOf(s.integer({ description }), 1.5), [
      'spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"',
      '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x',
    ]);
    assert.deepEqual(errorsOf(s.integer({ description }), '5'), [
      'spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"',
    ]);
  });

  test('fit their format', () => {
    assert.deepEqual(errorsOf(s.integer({ description, format: 'int32' }), 2 ** 31), [
      '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x',
    ]);
    assert.deepEqual(errorsOf(s.integer({ description, format: 'int64' }), 2 ** 31), []);
  });

  test('stay within their bounds', () => {
    const x = s.integer({ description, minimum: 1, maximum: 65535 });
    assert.deepEqual(errorsOf(x, 0), [
      'spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1',
    ]);
    assert.deepEqual(errorsOf(x, 70000), [
      'spec.x: Invalid value: 70000: spec.x in body should be less than or equal to 65535',
    ]);
  });
});

suite('lists', () => {
  const items = s.string({ description });

  test('are arrays of so many items', () => {
    const x = s.list({ description, listType: 'atomic', minItems: 1, maxItems: 1, items });
    assert.deepEqual(errorsOf(x, 'a'), [
      'spec.x: Invalid value: "string": spec.x in body must be of type array: "string"',
    ]);
    assert.deepEqual(errorsOf(x, []), [
      'spec.x: Invalid value: 0: spec.x in body should have at least 1 items',
    ]);
    assert.deepEqual(errorsOf(x, ['a', 'b']), ['spec.x: Too many: 2: must have at most 1 item']);
  });

  test('that are sets name each duplicate once', () => {
    const x = s.list({ description, listType: 'set', items });
    assert.deepEqual(errorsOf(x, ['a', 'b', 'a', 'a', 'b']), [
      'spec.x[2]: Duplicate value: "a"',
      'spec.x[4]: Duplicate value: "b"',
    ]);
  });

  test('that are maps are compared by their keys', () => {
    const item = object({
      name: required(s.string({ description })),
      port: required(s.integer({ description })),
      note: optional(s.string({ description })),
    });
    const one = s.list({ description, listType: 'map', keys: ['name'], items: item });
    const two = s.list({ description, listType: 'map', keys: ['name', 'port'], items: item });
    const value = [
      { name: 'a', port: 1 },
      { name: 'a', port: 2, note: 'x' },
    ];
    assert.deepEqual(errorsOf(one, value), ['spec.x[1]: Duplicate value: {"name":"a"}']);
    assert.deepEqual(errorsOf(two, value), []);
    assert.deepEqual(errorsOf(two, [value[0], value[0]]), [
      'spec.x[1]: Duplicate value: {"name":"a","port":1}',
    ]);
    assert.deepEqual(errorsOf(one, ['a']), [
      'spec.x[0]: Invalid value: "string": spec.x[0] in body must be of type object: "string"',
      'spec.x[0]: Invalid value: "a": must be an object for an array of list-type map',
    ]);
  });
});

suite('objects and maps', () => {
  test('every missing field is named, at every depth', () => {
    const schema = object({
      a: required(s.string({ description })),
      b: required(object({ c: required(s.string({ description })) })),
    });
    const errors = validate(schema, { b: {} });
    assert.deepEqual(
      errors.map(({ type, field, message }) => [type, field, message]),
      [
        ['FieldValueRequired', 'a', 'Required value'],
        ['FieldValueRequired', 'b.c', 'Required value'],
      ],
    );
  });

  test('a map has so many entries, each of its type', () => {
    const x = s.map({ description, maxProperties: 1, values: s.integer({ description }) });
    assert.deepEqual(errorsOf(x, { a: 1, b: 'x' }), [
      'spec.x: Too many: 2: must have at most 1 item',
      'spec.x.b: Invalid value: "string": spec.x.b in body must be of type integer: "string"',
    ]);
  });
});

suite('rules', () => {
  interface Range {
    readonly from: number;
    readonly to: number;
  }
  const range = s.object({
    description,
    fields: {
      from: required(s.integer({ description })),
      to: required(s.integer({ description })),
    },
    rules: [
      {
        cel: 'self.from <= self.to',
        message: 'must not end before it begins',
        holds: (value: Range) => value.from <= value.to,
      },
      {
        cel: 'self.from >= oldSelf.from',
        message: 'must not begin earlier than before',
        holds: (value: Range, old: Range | undefined) =>
          old === undefined || value.from >= old.from,
      },
    ],
  });
  const schema = object({ spec: optional(range) });
  const messages = (value: unknown, old?: unknown): string[] =>
    validate(schema, value, old).map((error) => `${error.field}: ${error.message}`);

  test('are asked of a sound value', () => {
    assert.deepEqual(messages({ spec: { from: 2, to: 1 } }), [
      'spec: Invalid value: must not end before it begins',
    ]);
  });

  test('about a change are asked of changes only', () => {
    assert.deepEqual(messages({ spec: { from: 1, to: 1 } }), []);
    assert.deepEqual(messages({ spec: { from: 1, to: 1 } }, { spec: { from: 2, to: 2 } }), [
      'spec: Invalid value: must not begin earlier than before',
    ]);
  });

  test('are not asked where a field is missing or of a wrong type, which is said', () => {
    assert.deepEqual(messages({ spec: { from: 2 } }), ['spec.to: Required value']);
  });

  test('that were broken before may stay so while the value does not change', () => {
    const broken = { spec: { from: 2, to: 1 } };
    assert.deepEqual(messages(broken, structuredClone(broken)), []);
    assert.deepEqual(messages({ spec: { from: 3, to: 1 } }, broken), [
      'spec: Invalid value: must not end before it begins',
    ]);
  });
});

suite('a change', () => {
  const schema = object({
    a: optional(s.string({ description, maxLength: 1 })),
    b: optional(s.integer({ description })),
    set: optional(s.list({ description, listType: 'set', items: s.string({ description }) })),
    ports: optional(
      s.list({
        description,
        listType: 'map',
        keys: ['name'],
        items: object({
          name: required(s.string({ description })),
          port: required(s.integer({ description, minimum: 1 })),
        }),
      }),
    ),
  });
  const fields = (value: unknown, old: unknown): string[] =>
    validate(schema, value, old).map((error) => error.field);

  test('is not held against what was wrong before and stays as it was', () => {
    assert.deepEqual(fields({ a: 'long', b: 2 }, { a: 'long', b: 1 }), []);
    assert.deepEqual(fields({ a: 'longer' }, { a: 'long' }), ['a']);
  });

  test('finds items of a list by their keys', () => {
    const bad = { name: 'x', port: 0 };
    assert.deepEqual(fields({ ports: [{ name: 'y', port: 1 }, bad] }, { ports: [bad] }), []);
    assert.deepEqual(fields({ ports: [{ name: 'y', port: 0 }] }, { ports: [bad] }), [
      'ports[0].port',
    ]);
  });

  test('of a map is held against its own entries, not against what every object has', () => {
    const values = object({ a: required(s.string({ description })) });
    const map = object({ m: optional(s.map({ description, values })) });
    const value: unknown = JSON.parse('{"m":{"__proto__":{}}}');
    const errors = validate(map, value, { m: { x: { a: 'b' } } });
    assert.deepEqual(
      errors.map((error) => error.field),
      ['m.__proto__.a'],
    );
  });

  test('may keep duplicates that were there, but not bring them', () => {
    assert.deepEqual(fields({ set: ['a', 'a', 'b'] }, { set: ['a', 'a'] }), []);
    assert.deepEqual(fields({ set: ['a', 'a'] }, { set: ['a'] }), ['set[1]']);
  });
});

test('no value makes validation throw', () => {
  const schema = object({
    a: optional(
      s.list({
        description,
        listType: 'map',
        keys: ['k'],
        items: object({ k: required(s.string({ description })) }),
      }),
    ),
    b: optional(
      s.map({
        description,
        values: s.list({ description, listType: 'set', items: s.integer({ description }) }),
      }),
    ),
    c: optional(s.time({ description })),
  });
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (value, old) => {
      validate(schema, value, old);
      validate(schema, { a: value, b: value, c: value }, { a: old, b: old });
      validate(schema, { a: [value, value], b: { x: [value, value] } });
    }),
  );
});

suite('a value that is wrong everywhere', () => {
  const texts = s.list({ description, listType: 'atomic', items: s.string({ description }) });
  const tags = s.list({ description, listType: 'set', items: s.string({ description }) });
  const numbers = Array.from({ length: 300_000 }, (_, i) => i);

  test('gets as many errors as anyone reads, and is told that there may be more', () => {
    const errors = errorsOf(texts, numbers);
    assert.equal(errors.length, mostErrors + 1);
    assert.match(errors.at(-1) ?? '', /^<nil>: Invalid value: null: there may be more errors/);
  });

  test('is not said to have more errors than it has', () => {
    assert.equal(errorsOf(texts, numbers.slice(0, 10)).length, 10);
  });

  test('is bounded where items stand twice as well', () => {
    const twice = numbers.flatMap((number) => [String(number), String(number)]);
    assert.equal(errorsOf(tags, twice).length, mostErrors);
  });

  test('is forgiven all the same where it was so before', () => {
    const schema = object({ a: optional(texts), b: optional(texts) });
    const fields = validate(schema, { a: numbers, b: [1] }, { a: numbers, b: [2] }).map(
      (error) => error.field,
    );
    assert.deepEqual(fields, ['b[0]']);
  });
});
