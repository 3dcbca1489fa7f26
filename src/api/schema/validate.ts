// Structural validation: returns every invalid field with its path and the exact message of
// kube-apiserver for custom resources. The checks run in the order of kube-apiserver: schema
// (kube-openapi), uniqueness in sets and maps, rules (CEL). As there, one value can have several
// errors. Errors below a value that equals the one in `old` are ignored (ratcheting), so that an
// object that was stored under a looser schema can still be changed elsewhere.
//
// The time is proportional to the size of the value, and the comparison with `old` runs only after
// an error. Validation stops after `mostErrors` errors, because a body of a few megabytes can have
// a million.

import { validateDateTime } from '../values/date-time.ts';
import {
  type FieldError,
  type FieldErrorType,
  invalid,
  mostErrors,
  notSupported,
  required,
  tooLong,
  tooMany,
  typeInvalid,
  wholeObject,
} from './field-error.ts';
import { quoteGo } from './go-text.ts';
import { isInt64, isObject, jsonEquals } from './json.ts';
import { correlatedItem, duplicatesIn } from './list-keys.ts';
import { joinPath } from './prune.ts';
import { brokenRules, hasRules } from './rules.ts';
import type { IntegerSchema, ListSchema, Schema, StringSchema } from './schema.ts';

/** Errors after which rules are not asked: they could meet a type that they do not expect. */
const blocking: ReadonlySet<FieldErrorType> = new Set([
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
]);

const notAllListed: FieldError = invalid(
  wholeObject,
  undefined,
  'there may be more errors than are listed; correct these to see the others',
);

/** `old` is what the value replaces; undefined where it is new. */
export function validateStructure(schema: Schema, value: unknown, old?: unknown): FieldError[] {
  const errors: FieldError[] = [];
  check(schema, value, old, '', errors);
  if (errors.length >= mostErrors) errors.push(notAllListed);
  return errors;
}

/** Adds to `errors`, found so far, what is asked last: uniqueness in lists, and rules unless an error forbids to ask them. */
export function validateRest(
  schema: Schema,
  value: unknown,
  old: unknown,
  errors: FieldError[],
): void {
  errors.push(...brokenUniqueness(schema, value, old));
  if (!hasRules(schema)) return;
  if (errors.some((error) => blocking.has(error.type))) return;
  errors.push(...brokenRules(schema, value, old));
}

/** An object that already broke uniqueness may go on to do so, until a change mends it. */
function brokenUniqueness(schema: Schema, value: unknown, old: unknown): FieldError[] {
  const errors = duplicatesIn(schema, value);
  if (errors.length === 0 || old === undefined) return errors;
  return duplicatesIn(schema, old).length === 0 ? errors : [];
}

function check(
  schema: Schema,
  value: unknown,
  old: unknown,
  path: string,
  errors: FieldError[],
): void {
  const before = errors.length;
  if (before >= mostErrors) return;
  switch (schema.type) {
    case 'string':
      checkString(schema, value, path, errors);
      break;
    case 'integer':
      checkInteger(schema, value, path, errors);
      break;
    case 'boolean':
      if (typeof value !== 'boolean') wrongType('boolean', value, path, errors);
      break;
    case 'list':
      checkList(schema, value, old, path, errors);
      break;
    case 'object':
      checkObject(schema.fields, value, old, path, errors);
      break;
    case 'map':
      checkMap(schema.values, schema.maxProperties, value, old, path, errors);
      break;
    case 'any':
      break;
  }
  if (errors.length > before && old !== undefined && jsonEquals(value, old)) errors.length = before;
}

/** JSON's own name of a value's type, with integers told apart as Go's decoder does. */
function typeName(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return isInt64(value) ? 'integer' : 'number';
  return typeof value;
}

function wrongType(expected: string, value: unknown, path: string, errors: FieldError[]): void {
  const actual = typeName(value);
  errors.push(
    typeInvalid(path, actual, `${path} in body must be of type ${expected}: "${actual}"`),
  );
}

/**
 * Where a schema has a format, kube-openapi compares formats first, and says so. A list passes there
 * for a string with a format; here it does not, which is a deviation.
 */
function wrongFormat(
  expected: string,
  format: string,
  value: unknown,
  path: string,
  errors: FieldError[],
): void {
  const type = typeName(value);
  if (type === 'null' || type === 'string' || type === 'array') {
    wrongType(expected, value, path, errors);
    return;
  }
  const actual = type === 'integer' ? 'int64' : type === 'number' ? 'float64' : '';
  errors.push(typeInvalid(path, actual, `${path} in body must be of type ${format}: "${actual}"`));
}

const patterns = new Map<string, RegExp>();

function compiledPattern(pattern: string): RegExp {
  let compiled = patterns.get(pattern);
  if (compiled === undefined) {
    compiled = new RegExp(pattern, 'u');
    patterns.set(pattern, compiled);
  }
  return compiled;
}

/** Lengths count Unicode code points, as Go's runes. */
function runeCount(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0xd800 && code <= 0xdbff) {
      const next = text.charCodeAt(i + 1);
      if (next >= 0xdc00 && next <= 0xdfff) {
        count--;
        i++;
      }
    }
  }
  return count;
}

function checkString(
  schema: StringSchema,
  value: unknown,
  path: string,
  errors: FieldError[],
): void {
  if (typeof value === 'string') {
    checkText(schema, value, path, errors);
    if (schema.format === 'date-time' && !validateDateTime(value)) {
      const detail = `${path} in body must be of type date-time: ${quoteGo(value)}`;
      errors.push(typeInvalid(path, value, detail));
    }
  } else if (schema.format === undefined) {
    wrongType('string', value, path, errors);
  } else {
    wrongFormat('string', schema.format, value, path, errors);
  }
  if (schema.enum !== undefined && !(schema.enum as readonly unknown[]).includes(value)) {
    errors.push(notSupported(path, value, schema.enum));
  }
}

/** The first of length and pattern that fails is said. */
function checkText(schema: StringSchema, value: string, path: string, errors: FieldError[]): void {
  const { minLength, maxLength, pattern, hint } = schema;
  if (maxLength !== undefined && value.length > maxLength && runeCount(value) > maxLength) {
    errors.push(tooLong(path, maxLength));
  } else if (minLength !== undefined && runeCount(value) < minLength) {
    errors.push(invalid(path, value, `${path} in body should be at least ${minLength} chars long`));
  } else if (pattern !== undefined && !compiledPattern(pattern).test(value)) {
    errors.push(invalid(path, value, hint ?? `${path} in body should match '${pattern}'`));
  }
}

function checkInteger(
  schema: IntegerSchema,
  value: unknown,
  path: string,
  errors: FieldError[],
): void {
  const sound = typeof value === 'number' && isInt64(value);
  if (!sound) {
    if (schema.format === undefined) wrongType('integer', value, path, errors);
    else wrongFormat('integer', schema.format, value, path, errors);
  }
  if (typeof value !== 'number') return;
  if (!sound || (schema.format === 'int32' && (value < -(2 ** 31) || value >= 2 ** 31))) {
    const format =
      schema.format === undefined ? '(default format)' : `with format ${schema.format}`;
    const detail = `Checked value must be of type integer ${format} in ${path}`;
    errors.push(invalid(wholeObject, '', detail));
  }
  if (schema.minimum !== undefined && value < schema.minimum) {
    const detail = `${path} in body should be greater than or equal to ${schema.minimum}`;
    errors.push(invalid(path, value, detail));
  }
  if (schema.maximum !== undefined && value > schema.maximum) {
    const detail = `${path} in body should be less than or equal to ${schema.maximum}`;
    errors.push(invalid(path, value, detail));
  }
}

function checkList(
  schema: ListSchema,
  value: unknown,
  old: unknown,
  path: string,
  errors: FieldError[],
): void {
  if (!Array.isArray(value)) {
    wrongType('array', value, path, errors);
    return;
  }
  for (let i = 0; i < value.length; i++) {
    const item: unknown = value[i];
    const itemPath = `${path}[${i}]`;
    const before = errors.length;
    check(schema.items, item, undefined, itemPath, errors);
    if (errors.length === before || old === undefined) continue;
    // Only now is it worth a search for what the item was before.
    errors.length = before;
    check(schema.items, item, correlatedItem(schema, item, old), itemPath, errors);
  }
  const { minItems, maxItems } = schema;
  if (minItems !== undefined && value.length < minItems) {
    const detail = `${path} in body should have at least ${minItems} items`;
    errors.push(invalid(path, value.length, detail));
  }
  if (maxItems !== undefined && value.length > maxItems) {
    errors.push(tooMany(path, value.length, maxItems));
  }
}

function checkObject(
  fields: Readonly<Record<string, { readonly schema: Schema; readonly required: boolean }>>,
  value: unknown,
  old: unknown,
  path: string,
  errors: FieldError[],
): void {
  if (!isObject(value)) {
    wrongType('object', value, path, errors);
    return;
  }
  const oldFields = isObject(old) ? old : undefined;
  for (const name in fields) {
    const field = fields[name];
    if (field === undefined) continue;
    if (Object.hasOwn(value, name)) {
      check(field.schema, value[name], oldFields?.[name], joinPath(path, name), errors);
    } else if (field.required) {
      errors.push(required(joinPath(path, name)));
    }
  }
}

function checkMap(
  values: Schema,
  maxProperties: number | undefined,
  value: unknown,
  old: unknown,
  path: string,
  errors: FieldError[],
): void {
  if (!isObject(value)) {
    wrongType('object', value, path, errors);
    return;
  }
  const keys = Object.keys(value);
  if (maxProperties !== undefined && keys.length > maxProperties) {
    errors.push(tooMany(path, keys.length, maxProperties));
  }
  const oldValues = isObject(old) ? old : undefined;
  for (const key of keys) {
    const before = oldValues && Object.hasOwn(oldValues, key) ? oldValues[key] : undefined;
    check(values, value[key], before, joinPath(path, key), errors);
  }
}
