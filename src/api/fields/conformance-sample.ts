// Test fixture of this folder: a kind with every type of field ownership, random values of it, and
// writes to its objects as the server makes them.

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import type { Json, JsonObject, ManagedFieldsEntry } from '../object.ts';
import { objectMetaSchema } from '../metadata/object-meta.ts';
import { optional, required, s } from '../schema/dsl.ts';
import type { ObjectSchema, Schema } from '../schema/schema.ts';
import { listPaths } from './field-set.ts';
import { decodeFieldsV1 } from './fields-v1.ts';
import { recordUpdate, serverSideApply } from './ownership.ts';
import { printPath } from './path-element.ts';

const description = 'A sample.';
const text = s.string({ description });
const number = s.integer({ description });

export const apiVersion = 'hansa.dev/v1alpha1';
export const kind = 'Sample';

export const specSchema: ObjectSchema = s.object({
  description,
  fields: {
    title: optional(text),
    size: optional(number),
    enabled: optional(s.boolean({ description })),
    due: optional(s.time({ description })),
    tags: optional(s.list({ description, listType: 'set', items: text })),
    args: optional(s.list({ description, listType: 'atomic', items: text })),
    ports: optional(
      s.list({
        description,
        listType: 'map',
        keys: ['name', 'protocol'],
        items: s.object({
          description,
          fields: {
            name: required(text),
            protocol: optional(s.string({ description, default: 'TCP' })),
            port: optional(number),
            flags: optional(s.list({ description, listType: 'set', items: number })),
          },
        }),
      }),
    ),
    nested: optional(
      s.object({
        description,
        fields: {
          a: optional(text),
          deep: optional(s.object({ description, fields: { b: optional(number) } })),
        },
      }),
    ),
    labels: optional(s.map({ description, values: text })),
    limits: optional(
      s.map({ description, values: s.object({ description, fields: { max: optional(number) } }) }),
    ),
    frozen: optional(
      s.object({
        description,
        mapType: 'atomic',
        fields: { k: optional(text), v: optional(text) },
      }),
    ),
    extra: optional(s.any({ description })),
  },
});

export const sampleSchema: ObjectSchema = s.object({
  description,
  fields: {
    apiVersion: optional(text),
    kind: optional(text),
    metadata: optional(objectMetaSchema),
    spec: optional(specSchema),
    status: optional(
      s.object({
        description,
        fields: {
          phase: optional(text),
          conditions: optional(
            s.list({
              description,
              listType: 'map',
              keys: ['type'],
              items: s.object({
                description,
                fields: { type: required(text), status: optional(text) },
              }),
            }),
          ),
        },
      }),
    ),
  },
});

/** An object of the sample kind named x. */
export function sample(parts: {
  readonly metadata?: JsonObject;
  readonly spec?: JsonObject;
  readonly status?: JsonObject;
}): JsonObject {
  const { metadata, ...others } = parts;
  return { apiVersion, kind, metadata: { name: 'x', ...metadata }, ...others };
}

const word = fc.constantFrom('a', 'b', 'c', '<&>');

/** Random values of a schema: sound ones, without two items of the same keys. */
function valueOf(schema: Schema): fc.Arbitrary<Json> {
  switch (schema.type) {
    case 'string':
      return schema.format === undefined ? word : fc.constant('2026-01-01T00:00:00Z');
    case 'integer':
      return fc.integer({ min: 0, max: 3 });
    case 'boolean':
      return fc.boolean();
    case 'any':
      return fc.jsonValue({ maxDepth: 2, depthSize: 'small' }) as fc.Arbitrary<Json>;
    case 'map':
      return fc.dictionary(word, valueOf(schema.values), { maxKeys: 3 });
    case 'list': {
      const { keys = [], items } = schema;
      const identity = (item: Json): unknown =>
        schema.listType === 'map'
          ? JSON.stringify(keys.map((key) => (item as JsonObject)[key] ?? 'TCP'))
          : item;
      return schema.listType === 'atomic'
        ? fc.array(valueOf(items), { maxLength: 3 })
        : fc.uniqueArray(valueOf(items), { maxLength: 4, selector: identity });
    }
    case 'object': {
      const fields = Object.entries(schema.fields);
      return fc.record(
        Object.fromEntries(fields.map(([name, field]) => [name, valueOf(field.schema)])),
        { requiredKeys: fields.filter(([, field]) => field.required).map(([name]) => name) },
      );
    }
  }
}

/** As it would come over the wire. */
export const anySpec: fc.Arbitrary<JsonObject> = valueOf(specSchema).map(
  (value) => JSON.parse(JSON.stringify(value)) as JsonObject,
);

export const time = (second: number): string =>
  `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`;
const common = { schema: sampleSchema, apiVersion, kind, timeIso: time(0) };

export interface WriteOptions {
  readonly manager?: string;
  readonly at?: number;
  readonly subresource?: 'status';
  readonly force?: boolean;
}

function context({ manager = 'me', at = 0, subresource }: WriteOptions) {
  return {
    ...common,
    manager,
    timeIso: time(at),
    ...(subresource === undefined ? {} : { subresource }),
  };
}

/** What the server does around a create: it gives the object a uid. */
export function create(next: JsonObject, options: WriteOptions = {}): JsonObject {
  return withUid(recordUpdate({ ...context(options), live: undefined, next }));
}

export function withUid(object: JsonObject): JsonObject {
  return { ...object, metadata: { ...(object['metadata'] as JsonObject), uid: 'u' } };
}

export function update(live: JsonObject, next: JsonObject, options: WriteOptions = {}): JsonObject {
  return recordUpdate({ ...context(options), live, next });
}

export function apply(
  live: JsonObject | undefined,
  applied: JsonObject,
  options: WriteOptions = {},
): JsonObject {
  const object = serverSideApply({
    ...context(options),
    live,
    applied,
    force: options.force ?? false,
  });
  return withUid(object);
}

export function entries(object: JsonObject): readonly ManagedFieldsEntry[] {
  const metadata = object['metadata'] as unknown as {
    managedFields?: readonly ManagedFieldsEntry[];
  };
  return metadata.managedFields ?? [];
}

/** Who owns what, one line an entry: `me Update: .spec.title`. */
export function owners(object: JsonObject): string[] {
  return entries(object).map((entry) => {
    const paths = listPaths(decodeFieldsV1(entry.fieldsV1)).map(printPath).join(' ');
    const where = entry.subresource === undefined ? '' : `/${entry.subresource}`;
    return `${entry.manager} ${entry.operation}${where}: ${paths}`;
  });
}

export function failure(action: () => unknown): HansaError {
  try {
    action();
  } catch (error) {
    assert.ok(error instanceof HansaError);
    return error;
  }
  throw new assert.AssertionError({ message: 'nothing was thrown' });
}
