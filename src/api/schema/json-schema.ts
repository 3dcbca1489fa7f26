// Converts our schemas to JSON Schema in the dialect of Kubernetes, for CRDs and OpenAPI v3.

import type { JsonObject } from '../object.ts';
import type { Schema } from './schema.ts';

type Mutable = Record<string, JsonObject[string]>;

export function toJsonSchema(schema: Schema): JsonObject {
  const out: Mutable = { description: schema.description };
  const copy = (source: object, ...names: readonly string[]): void => {
    for (const name of names) {
      const value = (source as Record<string, JsonObject[string] | undefined>)[name];
      if (value !== undefined) out[name] = value;
    }
  };
  switch (schema.type) {
    case 'string':
      out['type'] = 'string';
      copy(schema, 'format', 'enum', 'pattern', 'minLength', 'maxLength', 'default');
      break;
    case 'integer':
      out['type'] = 'integer';
      copy(schema, 'format', 'minimum', 'maximum', 'default');
      break;
    case 'boolean':
      out['type'] = 'boolean';
      copy(schema, 'default');
      break;
    case 'list':
      out['type'] = 'array';
      out['items'] = toJsonSchema(schema.items);
      copy(schema, 'minItems', 'maxItems', 'default');
      out['x-kubernetes-list-type'] = schema.listType;
      if (schema.keys !== undefined) out['x-kubernetes-list-map-keys'] = schema.keys;
      break;
    case 'object': {
      out['type'] = 'object';
      const fields = Object.entries(schema.fields);
      out['properties'] = Object.fromEntries(
        fields.map(([name, field]) => [name, toJsonSchema(field.schema)]),
      );
      const required = fields.filter(([, field]) => field.required).map(([name]) => name);
      if (required.length > 0) out['required'] = required;
      copy(schema, 'default');
      if (schema.mapType === 'atomic') out['x-kubernetes-map-type'] = 'atomic';
      if (schema.rules !== undefined && schema.rules.length > 0) {
        out['x-kubernetes-validations'] = schema.rules.map(({ cel, message }) => ({
          rule: cel,
          message,
        }));
      }
      break;
    }
    case 'map':
      out['type'] = 'object';
      out['additionalProperties'] = toJsonSchema(schema.values);
      copy(schema, 'maxProperties');
      if (schema.mapType === 'atomic') out['x-kubernetes-map-type'] = 'atomic';
      break;
    case 'any':
      out['nullable'] = true;
      out['x-kubernetes-preserve-unknown-fields'] = true;
      break;
  }
  return out;
}
