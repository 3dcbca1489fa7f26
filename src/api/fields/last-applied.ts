// The annotation of client-side apply. When `kubectl apply --server-side` meets an object that
// `kubectl apply` wrote, fields in the annotation change their manager without a conflict. The server
// keeps the annotation up to date, so that client-side apply still works.

import { annotationsBytes, maxAnnotationsBytes } from '../metadata/metadata-rules.ts';
import type { Json, JsonObject } from '../object.ts';
import { stringifyGo } from '../schema/go-text.ts';
import type { ObjectSchema } from '../schema/schema.ts';
import { compare } from './compare.ts';
import { type FieldSet, difference } from './field-set.ts';
import { isJsonObject, isWithinDepth, maxJsonDepth, ownValue } from './json-value.ts';
import { toFieldSet } from './to-field-set.ts';
import { checkTyped } from './typed-check.ts';

const lastAppliedAnnotation = 'kubectl.kubernetes.io/last-applied-configuration';

function lastAppliedOf(object: JsonObject): string | undefined {
  const metadata = ownValue(object, 'metadata');
  if (!isJsonObject(metadata)) return undefined;
  const annotations = ownValue(metadata, 'annotations');
  if (!isJsonObject(annotations)) return undefined;
  const value = ownValue(annotations, lastAppliedAnnotation);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/**
 * The fields that client-side apply set and that are still as it set them; undefined where there is
 * no annotation, or none that can be used.
 */
export function fieldsOfLastApplied(
  schema: ObjectSchema,
  live: JsonObject,
  apiVersion: string,
): FieldSet | undefined {
  const annotation = lastAppliedOf(live);
  if (annotation === undefined) return undefined;
  try {
    const applied = JSON.parse(annotation) as Json;
    if (!isJsonObject(applied) || !isWithinDepth(applied, maxJsonDepth)) return undefined;
    if (ownValue(applied, 'apiVersion') !== apiVersion) return undefined;
    const kind = ownValue(applied, 'kind');
    if (typeof kind !== 'string' || kind === '') return undefined;
    checkTyped(schema, applied, false);
    const changed = compare(schema, applied, live);
    let fields = toFieldSet(schema, applied);
    for (const set of [changed.modified, changed.added, changed.removed]) {
      fields = difference(fields, set);
    }
    return fields;
  } catch {
    // The annotation is a client's text: where it cannot be read, it vouches for nothing.
    return undefined;
  }
}

/** The object with its annotation, if it has one, set to the configuration that was applied. */
export function withLastApplied(object: JsonObject, config: JsonObject): JsonObject {
  if (lastAppliedOf(object) === undefined) return object;
  const metadata = object['metadata'] as JsonObject;
  const annotations: Record<string, string> = {
    ...(metadata['annotations'] as Record<string, string>),
  };
  annotations[lastAppliedAnnotation] = `${stringifyGo(withoutAnnotation(config))}\n`;
  // Where it does not fit it is left out: the object itself must not become invalid by it.
  if (annotationsBytes(annotations) > maxAnnotationsBytes)
    delete annotations[lastAppliedAnnotation];
  return { ...object, metadata: { ...metadata, annotations } };
}

function withoutAnnotation(config: JsonObject): JsonObject {
  const metadata = ownValue(config, 'metadata');
  if (!isJsonObject(metadata)) return config;
  const annotations = ownValue(metadata, 'annotations');
  if (!isJsonObject(annotations)) return config;
  const { [lastAppliedAnnotation]: _, ...others } = annotations;
  return { ...config, metadata: { ...metadata, annotations: others } };
}
