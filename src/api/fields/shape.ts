// How server-side apply sees a schema: each value is a leaf (owned as a whole), a list whose items
// are owned one by one, or a map whose fields are. This is what kube-apiserver derives from the
// OpenAPI schema of a custom resource.

import type { Json, JsonObject } from '../object.ts';
import { compareBytes } from '../schema/go-text.ts';
import type { AnySchema, ListSchema, MapSchema, ObjectSchema, Schema } from '../schema/schema.ts';
import { isJsonArray, isJsonObject } from './json-value.ts';
import { type PathElement, fieldElement, keyElement, valueElement } from './path-element.ts';

/** A value that does not fit its schema, in the words of kube-apiserver. */
export class SchemaMismatch extends Error {}

export type MapShape = ObjectSchema | MapSchema | AnySchema;

export const anySchema: AnySchema = { type: 'any', description: 'Any JSON.' };

export interface KnownField {
  readonly element: PathElement;
  readonly schema: Schema;
}

const knownFieldsOf = new WeakMap<ObjectSchema, ReadonlyMap<string, KnownField>>();

/** The declared fields with their path elements, made once per schema. */
export function knownFields(schema: ObjectSchema): ReadonlyMap<string, KnownField> {
  let fields = knownFieldsOf.get(schema);
  if (fields === undefined) {
    fields = new Map(
      Object.entries(schema.fields).map(([name, field]) => [
        name,
        { element: fieldElement(name), schema: field.schema },
      ]),
    );
    knownFieldsOf.set(schema, fields);
  }
  return fields;
}

/**
 * The granular map that a schema is for a value, or undefined where it is none. `any` becomes a map
 * when it holds an object (or null): kube-apiserver tracks free-form objects field by field too.
 */
export function mapShape(schema: Schema, value: Json | undefined): MapShape | undefined {
  switch (schema.type) {
    case 'object':
    case 'map':
      return schema.mapType === 'atomic' ? undefined : schema;
    case 'any':
      return value === undefined || value === null || isJsonObject(value) ? schema : undefined;
    default:
      return undefined;
  }
}

export function listShape(schema: Schema): ListSchema | undefined {
  return schema.type === 'list' && schema.listType !== 'atomic' ? schema : undefined;
}

/** The schema of one field of a map; undefined where the field is not declared. */
export function fieldSchema(shape: MapShape, name: string): Schema | undefined {
  if (shape.type === 'map') return shape.values;
  if (shape.type === 'any') return anySchema;
  const known = knownFields(shape).get(name);
  if (known !== undefined) return known.schema;
  // An object that declares no fields at all is free-form.
  return knownFields(shape).size === 0 ? anySchema : undefined;
}

export function isDeclaredField(shape: MapShape, name: string): boolean {
  return shape.type === 'object' && knownFields(shape).has(name);
}

/** A path element for a field, without building a string where the schema knows it. */
export function elementOfField(shape: MapShape, name: string): PathElement {
  if (shape.type === 'object') {
    const known = knownFields(shape).get(name);
    if (known !== undefined) return known.element;
  }
  return fieldElement(name);
}

/** The object in a value; null and absence are maps without fields. */
export function asMap(value: Json | undefined): JsonObject | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isJsonObject(value)) throw new SchemaMismatch(`expected map, got &{${printGo(value)}}`);
  return value;
}

export function asList(value: Json | undefined): readonly Json[] | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isJsonArray(value)) throw new SchemaMismatch(`expected list, got &{${printGo(value)}}`);
  return value;
}

/** The path element that identifies an item of a list of type set or map. */
export function itemElement(list: ListSchema, item: Json): PathElement {
  if (list.listType === 'set') {
    if (item === null) {
      throw new SchemaMismatch(
        "associative list without keys has an element that's an explicit null",
      );
    }
    if (isJsonArray(item)) {
      throw new SchemaMismatch('not supported: associative list with lists as elements');
    }
    if (isJsonObject(item)) {
      throw new SchemaMismatch("associative list without keys has an element that's a map type");
    }
    return valueElement(item);
  }
  if (item === null) {
    throw new SchemaMismatch('associative list with keys may not have a null element');
  }
  if (!isJsonObject(item)) {
    throw new SchemaMismatch('associative list with keys may not have non-map elements');
  }
  const fields: [string, Json][] = [];
  for (const key of keysOf(list)) {
    const value = Object.hasOwn(item, key.name) ? item[key.name] : key.default;
    if (value !== undefined) fields.push([key.name, value]);
  }
  if (fields.length === 0) {
    const names = (list.keys ?? []).map((key) => `"${key}"`).join(' ');
    throw new SchemaMismatch(
      `associative list with keys has an element that omits all key fields [${names}] (and doesn't have default values for any key fields)`,
    );
  }
  return keyElement(fields);
}

interface ListKey {
  readonly name: string;
  readonly default: Json | undefined;
}

const listKeys = new WeakMap<ListSchema, readonly ListKey[]>();

function keysOf(list: ListSchema): readonly ListKey[] {
  let keys = listKeys.get(list);
  if (keys === undefined) {
    keys = (list.keys ?? []).toSorted(compareBytes).map((name) => {
      const schema =
        list.items.type === 'object' ? knownFields(list.items).get(name)?.schema : undefined;
      const fallback = schema !== undefined && 'default' in schema ? schema.default : undefined;
      return { name, default: fallback as Json | undefined };
    });
    listKeys.set(list, keys);
  }
  return keys;
}

/** Go's `%v` of a decoded JSON value. */
export function printGo(value: Json): string {
  if (value === null) return '<nil>';
  if (isJsonArray(value)) return `[${value.map(printGo).join(' ')}]`;
  if (isJsonObject(value)) {
    const keys = Object.keys(value).toSorted(compareBytes);
    return `map[${keys.map((key) => `${key}:${printGo(value[key] ?? null)}`).join(' ')}]`;
  }
  return String(value);
}
