// JSON Merge Patch (RFC 7386), in the dialect of kube-apiserver (see json-patch.ts).

import { HansaError } from '../../core/errors/error.ts';
import {
  isJsonArray,
  isJsonObject,
  isWithinDepth,
  maxJsonDepth,
  setOwn,
} from '../fields/json-value.ts';
import type { Json, JsonObject } from '../object.ts';
import { goKind } from '../schema/go-text.ts';
import { type FieldValidation, tooDeep } from './json-patch.ts';

/** Applies a parsed merge patch. Throws HANSA_BAD_REQUEST, in kube-apiserver's words, where it is no object. */
export function applyMergePatch(
  document: JsonObject,
  patch: Json,
  validation: FieldValidation,
): Json {
  if (!isWithinDepth(patch, maxJsonDepth)) throw tooDeep();
  if (isJsonObject(patch)) return mergeObjects(document, patch);
  if (validation !== 'Ignore' && patch !== null) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `error decoding patch: json: cannot unmarshal ${goKind(patch)} into Go value of type map[string]interface {}`,
    );
  }
  // A list replaces the whole document, which is then refused for not being a resource.
  if (isJsonArray(patch)) return withoutNulls(patch);
  throw new HansaError('HANSA_BAD_REQUEST', 'Invalid JSON Patch');
}

function mergeObjects(target: JsonObject, patch: JsonObject): JsonObject {
  const out: Record<string, Json> = { ...target };
  for (const key of Object.keys(patch)) {
    const value = patch[key] as Json;
    if (value === null) {
      delete out[key];
      continue;
    }
    const current = Object.hasOwn(target, key) ? (target[key] ?? null) : null;
    if (!isJsonObject(current)) setOwn(out, key, withoutNulls(value));
    else if (isJsonObject(value)) setOwn(out, key, mergeObjects(current, value));
    else setOwn(out, key, value);
  }
  return out;
}

/**
 * Null members say "remove", so a value that is new has none. kube-apiserver looks for them inside
 * of lists as well; null items stay.
 */
function withoutNulls(value: Json): Json {
  if (isJsonArray(value)) return value.map(withoutNulls);
  if (!isJsonObject(value)) return value;
  const out: Record<string, Json> = {};
  for (const key of Object.keys(value)) {
    const inner = value[key] as Json;
    if (inner !== null) setOwn(out, key, withoutNulls(inner));
  }
  return out;
}
