// Checks the schemas themselves. An invalid schema is a programming error and throws, with the path
// of the declaration.

import type { ListSchema, Schema } from './schema.ts';

const keywords: Readonly<Record<Schema['type'], readonly string[]>> = {
  string: ['enum', 'pattern', 'hint', 'minLength', 'maxLength', 'format', 'default', 'nullable'],
  integer: ['format', 'minimum', 'maximum', 'default'],
  boolean: ['default'],
  list: ['items', 'listType', 'keys', 'minItems', 'maxItems', 'default'],
  object: ['fields', 'default', 'rules', 'mapType'],
  map: ['values', 'maxProperties', 'mapType'],
  any: [],
};

function refuse(path: string, why: string): never {
  throw new TypeError(`Schema ${path}: ${why}`);
}

export function checkSchema(schema: Schema, path: string): void {
  if (schema.description.trim() === '') refuse(path, 'has no description');
  const allowed = keywords[schema.type];
  for (const key of Object.keys(schema)) {
    if (key !== 'type' && key !== 'description' && !allowed.includes(key)) {
      refuse(path, `"${key}" means nothing on a schema of type ${schema.type}`);
    }
  }
  switch (schema.type) {
    case 'string':
      if (schema.pattern !== undefined) checkPattern(schema.pattern, path);
      if (schema.hint !== undefined && schema.pattern === undefined) {
        refuse(path, 'a hint without a pattern is never said');
      }
      if (schema.enum?.length === 0) refuse(path, 'an empty enum accepts nothing');
      break;
    case 'list':
      checkListKeys(schema, path);
      checkSchema(schema.items, `${path}[]`);
      break;
    case 'object':
      for (const [name, field] of Object.entries(schema.fields)) {
        if (!/^[a-z][A-Za-z0-9]*$/.test(name)) refuse(`${path}.${name}`, 'is not in camelCase');
        if (field.required && 'default' in field.schema) {
          refuse(`${path}.${name}`, 'is required and has a default: one of them is in vain');
        }
        checkSchema(field.schema, `${path}.${name}`);
      }
      break;
    case 'map':
      checkSchema(schema.values, `${path}{}`);
      break;
    case 'integer':
    case 'boolean':
    case 'any':
      break;
  }
}

function checkPattern(pattern: string, path: string): void {
  try {
    ''.match(new RegExp(pattern, 'u'));
  } catch {
    refuse(path, `"${pattern}" is not a regular expression`);
  }
}

function checkListKeys(schema: ListSchema, path: string): void {
  if (schema.listType === 'set' && !['string', 'integer', 'boolean'].includes(schema.items.type)) {
    refuse(path, 'the items of a set must be strings, integers or booleans');
  }
  if (schema.listType !== 'map') {
    if (schema.keys !== undefined) refuse(path, 'only a list of type map has keys');
    return;
  }
  if (schema.keys === undefined || schema.keys.length === 0) {
    refuse(path, 'a list of type map needs keys');
  }
  if (schema.items.type !== 'object') refuse(path, 'the items of a list of type map are objects');
  for (const key of schema.keys) {
    const field = schema.items.fields[key];
    if (field === undefined) refuse(path, `its items have no field "${key}"`);
    if (!field.required && !('default' in field.schema)) {
      refuse(path, `its key "${key}" must be required or have a default`);
    }
    if (!['string', 'integer', 'boolean'].includes(field.schema.type)) {
      refuse(path, `its key "${key}" must be a string, an integer or a boolean`);
    }
  }
}
