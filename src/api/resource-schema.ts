// The operations on whole objects of a kind: prune and default the input, then validate it as a new
// object, an update, or an update of its status.

import { HansaError } from '../core/errors/error.ts';
import type { Kind } from './kind.ts';
import { type CoercedMetadata, coerceMetadata } from './metadata/metadata.ts';
import { validateChangedMetadata, validateNewMetadata } from './metadata/metadata-rules.ts';
import { apiVersion, group, type ObjectMeta, version } from './object.ts';
import { objectMetaSchema } from './metadata/object-meta.ts';
import { applyDefaults } from './schema/default.ts';
import { optional, s } from './schema/dsl.ts';
import { type FieldError, invalid, wholeObject } from './schema/field-error.ts';
import { isObject } from './schema/json.ts';
import { prune } from './schema/prune.ts';
import type { Field, ObjectSchema, Schema } from './schema/schema.ts';
import { validateRest, validateStructure } from './schema/validate.ts';

/** A decoded object. Never changed by anything in here. */
export type Untyped = Readonly<Record<string, unknown>>;

const whole = new WeakMap<Kind, ObjectSchema>();
const bodies = new WeakMap<Kind, ObjectSchema>();

/** The schema of whole objects: apiVersion, kind, metadata, spec, status. One value a kind. */
export function objectSchema(kind: Kind): ObjectSchema {
  let schema = whole.get(kind);
  if (schema === undefined) {
    schema = s.object({
      description: kind.description,
      fields: {
        apiVersion: optional(s.string({ description: `Always ${apiVersion}.` })),
        kind: optional(s.string({ description: `Always ${kind.kind}.` })),
        metadata: optional(objectMetaSchema),
        ...bodySchema(kind).fields,
      },
    });
    whole.set(kind, schema);
  }
  return schema;
}

/** What the kind itself declares: the object without its type and metadata. */
function bodySchema(kind: Kind): ObjectSchema {
  let schema = bodies.get(kind);
  if (schema === undefined) {
    const spec: Field = { schema: kind.spec, required: kind.specRequired };
    const status: Readonly<Record<string, Field>> =
      kind.status === undefined ? {} : { status: optional(kind.status) };
    schema = s.object({ description: kind.description, fields: { spec, ...status } });
    bodies.set(kind, schema);
  }
  return schema;
}

/** The schema at a path such as `spec.role`; undefined where there is none. */
export function fieldAt(kind: Kind, path: string): Schema | undefined {
  let schema: Schema | undefined = objectSchema(kind);
  for (const name of path.split('.')) {
    if (schema?.type !== 'object') return undefined;
    schema = Object.hasOwn(schema.fields, name) ? schema.fields[name]?.schema : undefined;
  }
  return schema;
}

export function defaultObject(kind: Kind, object: Untyped): Untyped {
  return applyDefaults(bodySchema(kind), object) as Untyped;
}

export interface PrunedObject {
  readonly object: Untyped;
  /** Paths for `unknown field "…"`: those of metadata first, then the others in byte order. */
  readonly unknown: readonly string[];
}

/** The 400 of kube-apiserver for a body that is not an object of the kind: `why` ends its sentence. */
export function undecodable(kind: Kind, why: string): HansaError {
  return new HansaError(
    'HANSA_BAD_REQUEST',
    `${kind.kind} in version "${version}" cannot be handled as a ${kind.kind}: ${why}`,
  );
}

/** The 400 for unknown and duplicate fields where the request's field validation is Strict. */
export function strictlyRefused(kind: Kind, problems: readonly string[]): HansaError {
  return undecodable(kind, `strict decoding error: ${problems.join(', ')}`);
}

/** Throws HANSA_BAD_REQUEST where metadata holds a value of a wrong type. */
export function pruneObject(kind: Kind, object: Untyped): PrunedObject {
  const { apiVersion: given, kind: name, metadata, ...body } = object;
  const pruned = isOfKind(kind, object)
    ? prune(bodySchema(kind), body)
    : { value: body, unknown: [] };
  const coerced = metadata === undefined ? undefined : readMetadata(kind, metadata);
  if (pruned.value === body && coerced?.metadata === metadata) return { object, unknown: [] };
  const unknown = [...(coerced?.unknown ?? []), ...pruned.unknown];
  const result: Record<string, unknown> = {};
  if (given !== undefined) result['apiVersion'] = given;
  if (name !== undefined) result['kind'] = name;
  if (coerced !== undefined) result['metadata'] = coerced.metadata;
  return { object: Object.assign(result, pruned.value), unknown };
}

/** The fields of an object of another kind are unknown. A later check rejects such an object. */
function isOfKind(kind: Kind, object: Untyped): boolean {
  const given: unknown = object['apiVersion'];
  return object['kind'] === kind.kind && typeof given === 'string' && given.startsWith(`${group}/`);
}

function readMetadata(kind: Kind, metadata: unknown): CoercedMetadata {
  try {
    return coerceMetadata(metadata);
  } catch (caught) {
    throw caught instanceof HansaError ? undecodable(kind, caught.message) : caught;
  }
}

function metadataOf(object: Untyped): Partial<ObjectMeta> {
  const metadata: unknown = object['metadata'];
  return isObject(metadata) ? metadata : {};
}

function typeErrors(kind: Kind, object: Untyped): FieldError[] {
  const errors: FieldError[] = [];
  if (object['kind'] !== kind.kind) {
    errors.push(invalid('kind', object['kind'] ?? '', `must be ${kind.kind}`));
  }
  if (object['apiVersion'] !== apiVersion) {
    errors.push(invalid('apiVersion', object['apiVersion'] ?? '', `must be ${apiVersion}`));
  }
  return errors;
}

/**
 * What is wrong with an object that is about to be made, or (with `old`) to take the place of
 * another. Expects that it was pruned and defaulted, and that the server set what is its to set:
 * name from generateName, uid, timestamps and generation.
 */
export function validateObject(kind: Kind, object: Untyped, old?: Untyped): FieldError[] {
  const wrongType = typeErrors(kind, object);
  if (wrongType.length > 0) return wrongType;
  const metadata = metadataOf(object);
  const errors =
    old === undefined
      ? validateNewMetadata(kind, metadata)
      : validateChangedMetadata(metadata, metadataOf(old));
  const schema = bodySchema(kind);
  errors.push(...validateStructure(schema, object, old));
  validateRest(schema, object, old, errors);
  return errors;
}

/** What is wrong with an object whose status is about to be replaced; all else is as it was. */
export function validateStatus(kind: Kind, object: Untyped, old: Untyped): FieldError[] {
  const wrongType = typeErrors(kind, object);
  if (wrongType.length > 0) return wrongType;
  const errors = validateChangedMetadata(metadataOf(object), metadataOf(old));
  if (kind.status !== undefined && object['status'] !== undefined) {
    for (const error of validateStructure(kind.status, object['status'], old['status'])) {
      // kube-apiserver names the field from the root, but within the sentence from the status.
      const rootless = error.field === '' || error.field === wholeObject;
      errors.push({ ...error, field: rootless ? 'status' : `status.${error.field}` });
    }
  }
  validateRest(bodySchema(kind), object, old, errors);
  return errors;
}
