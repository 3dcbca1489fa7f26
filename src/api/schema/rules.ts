// Validation rules across fields. They run from the outside in, as CEL rules do in kube-apiserver.

import { type FieldError, mostErrors, wholeObject } from './field-error.ts';
import { isObject, jsonEquals } from './json.ts';
import { correlatedItem } from './list-keys.ts';
import { joinPath } from './prune.ts';
import type { Rule, Schema } from './schema.ts';

const withRules = new WeakMap<Schema, boolean>();

/** Whether this schema, or one below it, has a rule. */
export function hasRules(schema: Schema): boolean {
  const known = withRules.get(schema);
  if (known !== undefined) return known;
  let found = false;
  if (schema.type === 'object') {
    found =
      (schema.rules ?? []).length > 0 ||
      Object.values(schema.fields).some((field) => hasRules(field.schema));
  } else if (schema.type === 'list') {
    found = hasRules(schema.items);
  } else if (schema.type === 'map') {
    found = hasRules(schema.values);
  }
  withRules.set(schema, found);
  return found;
}

/** A rule that speaks of the old value is a rule about the change: it is asked of updates only. */
function isTransitionRule(rule: Rule): boolean {
  return /\boldSelf\b/.test(rule.cel);
}

export function brokenRules(schema: Schema, value: unknown, old: unknown): FieldError[] {
  const errors: FieldError[] = [];
  ask(schema, value, old, '', errors);
  return errors;
}

function ask(
  schema: Schema,
  value: unknown,
  old: unknown,
  path: string,
  errors: FieldError[],
): void {
  if (!hasRules(schema) || errors.length >= mostErrors) return;
  if (schema.type === 'object' && isObject(value)) {
    const oldFields = isObject(old) ? old : undefined;
    for (const rule of schema.rules ?? []) {
      if (!isBroken(rule, value, oldFields)) continue;
      const field = path === '' ? wholeObject : path;
      errors.push({ type: 'FieldValueInvalid', field, message: `Invalid value: ${rule.message}` });
    }
    for (const name in schema.fields) {
      const field = schema.fields[name];
      if (field === undefined || !Object.hasOwn(value, name)) continue;
      ask(field.schema, value[name], oldFields?.[name], joinPath(path, name), errors);
    }
  } else if (schema.type === 'list' && Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item: unknown = value[i];
      ask(schema.items, item, correlatedItem(schema, item, old), `${path}[${i}]`, errors);
    }
  } else if (schema.type === 'map' && isObject(value)) {
    const oldValues = isObject(old) ? old : undefined;
    for (const key of Object.keys(value)) {
      const before = oldValues && Object.hasOwn(oldValues, key) ? oldValues[key] : undefined;
      ask(schema.values, value[key], before, `${path}[${key}]`, errors);
    }
  }
}

function isBroken(rule: Rule, value: unknown, old: unknown): boolean {
  const transition = isTransitionRule(rule);
  if (transition && old === undefined) return false;
  if (rule.holds(value as never, old as never)) return false;
  // What was already so may stay so; only a rule about the change itself is asked in any case.
  return transition || old === undefined || !jsonEquals(value, old);
}
