// Checks that the result of a patch is still a resource. If not, the error shows the patched
// document, as in kube-apiserver, so that users can find the mistake in their patch.

import { HansaError } from '../../core/errors/error.ts';
import { isJsonObject, ownValue } from '../fields/json-value.ts';
import type { Json, JsonObject } from '../object.ts';
import { goKind, quoteGo, stringifyGo } from '../schema/go-text.ts';

/** Go's name of the struct into which the type of a document is decoded first. */
const typeStruct =
  'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }';

/** The patched document as an object with a kind. Throws HANSA_INVALID where it is none. */
export function patchedResource(patched: Json): JsonObject {
  if (!isJsonObject(patched)) {
    throw invalidPatch(
      patched,
      `couldn't get version/kind; json parse error: json: cannot unmarshal ${goKind(patched)} into Go value of type ${typeStruct}`,
    );
  }
  for (const name of ['apiVersion', 'kind']) {
    const value = ownValue(patched, name) ?? null;
    if (value === null || typeof value === 'string') continue;
    throw invalidPatch(
      patched,
      `couldn't get version/kind; json parse error: json: cannot unmarshal ${goKind(value)} into Go struct field .${name} of type string`,
    );
  }
  const kind = ownValue(patched, 'kind');
  if (kind === undefined || kind === null || kind === '') {
    throw invalidPatch(patched, `Object 'Kind' is missing in '${stringifyGo(patched)}'`);
  }
  return patched;
}

/** A patch whose result cannot be decoded, or not strictly: `detail` says why. */
export function invalidPatch(patched: Json, detail: string): HansaError {
  const message = `Invalid value: ${quoteGo(stringifyGo(patched))}: ${detail}`;
  return new HansaError('HANSA_INVALID', ` "" is invalid: patch: ${message}`, {
    details: { causes: [{ reason: 'FieldValueInvalid', message, field: 'patch' }] },
  });
}
