// PUT and the kinds of PATCH: how a request body becomes the next version of an object.

import { recordUpdate, serverSideApply } from '../../api/fields/ownership.ts';
import type { Kind } from '../../api/kind.ts';
import { apiVersion, type Json, type JsonObject } from '../../api/object.ts';
import { withoutUnreadable } from '../../api/metadata/metadata.ts';
import { applyJsonPatch, decodeJsonPatch, maxOperations } from '../../api/patch/json-patch.ts';
import { applyMergePatch } from '../../api/patch/merge-patch.ts';
import { invalidPatch, patchedResource } from '../../api/patch/patched-resource.ts';
import { objectSchema, undecodable } from '../../api/resource-schema.ts';
import { goKind } from '../../api/schema/go-text.ts';
import { hasCode } from '../../core/errors/error.ts';
import { MAX_VALUES } from '../../core/json/strict-json.ts';
import { mediaTypeOf } from '../../core/plane/media-types.ts';
import { parseBody, parseJson, settleObject, withMetadata } from './decode.ts';
import { badRequest, unsupportedMediaType } from './errors.ts';
import type { ObjectDraft } from './object-of.ts';
import type { WriteOptions } from './options.ts';

const patchMediaTypes = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/apply-patch+yaml',
] as const;

export type PatchType = (typeof patchMediaTypes)[number];

export function patchTypeOf(contentType: string | undefined): PatchType {
  const mediaType = mediaTypeOf(contentType);
  const found = patchMediaTypes.find((known) => known === mediaType);
  if (found === undefined) throw unsupportedMediaType(patchMediaTypes);
  return found;
}

export interface ChangeInput {
  readonly kind: Kind;
  readonly name: string;
  readonly subresource: 'status' | undefined;
  readonly options: WriteOptions;
  readonly timeIso: string;
  readonly warn: (text: string) => void;
}

type ChangeFunction = (live: ObjectDraft | undefined) => ObjectDraft;

function ownershipOf(input: ChangeInput, live: ObjectDraft | undefined) {
  return {
    schema: objectSchema(input.kind),
    kind: input.kind.kind,
    live: live as JsonObject | undefined,
    manager: input.options.manager,
    timeIso: input.timeIso,
    apiVersion,
    ...(input.subresource === undefined ? {} : { subresource: input.subresource }),
  };
}

/** PUT: the sent object replaces the live one. */
export function replaceWith(input: ChangeInput, sent: ObjectDraft): ChangeFunction {
  return (live) =>
    recordUpdate({ ...ownershipOf(input, live), next: sent as JsonObject }) as ObjectDraft;
}

/** Parses the body only after the object was found, so that 404 precedes 400. */
export function patchWith(input: ChangeInput, type: PatchType, body: Buffer): ChangeFunction {
  if (type === 'application/apply-patch+yaml') return applyWith(input, body);
  const validation = input.options.fieldValidation;
  return (live) => {
    // Only an apply creates an object, so `live` is defined here.
    const current = live as JsonObject;
    const { value: document, strictErrors: duplicates } = parsePatch(type, body);
    const jsonPatch =
      type === 'application/json-patch+json' ? decodeJsonPatch(document, validation) : undefined;
    const patched =
      jsonPatch === undefined
        ? applyMergePatch(current, document, validation)
        : applyJsonPatch(current, jsonPatch);
    const object = settlePatched(input, patched, [
      ...duplicates,
      ...(jsonPatch?.unknownFields ?? []),
    ]);
    return recordUpdate({ ...ownershipOf(input, live), next: object as JsonObject }) as ObjectDraft;
  };
}

/** The operation limit of kube-apiserver plus one, with at most four fields each. */
const maxJsonPatchValues = 5 * (maxOperations + 1);

function parsePatch(
  type: PatchType,
  body: Buffer,
): { value: Json; strictErrors: readonly string[] } {
  const maxValues = type === 'application/json-patch+json' ? maxJsonPatchValues : MAX_VALUES;
  return prefixed('error decoding patch: ', () => parseJson(body, maxValues));
}

/** Runs `work`, and puts `prefix` before the message of a HANSA_BAD_REQUEST. */
function prefixed<T>(prefix: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw hasCode(error, 'HANSA_BAD_REQUEST') ? badRequest(prefix + error.message) : error;
  }
}

/** Reports an invalid result as an error of the patch, with 422 as kube-apiserver does. */
function settlePatched(
  input: ChangeInput,
  patched: Json,
  strictErrors: readonly string[],
): ObjectDraft {
  const resource = withMetadata(patchedResource(patched), input.warn);
  try {
    const object = settleObject(input.kind, resource, strictErrors, input.options, input.warn);
    checkName(object, input.name);
    return object;
  } catch (error) {
    const prefix = undecodable(input.kind, '').message;
    if (!hasCode(error, 'HANSA_BAD_REQUEST') || !error.message.startsWith(prefix)) throw error;
    throw invalidPatch(patched, error.message.slice(prefix.length));
  }
}

function applyWith(input: ChangeInput, body: Buffer): ChangeFunction {
  const { value, strictErrors } = parseApply(body);
  return (live) => {
    const merged = serverSideApply({
      ...ownershipOf(input, live),
      applied: value,
      force: input.options.force,
    }) as ObjectDraft;
    if (strictErrors.length > 0 && input.options.fieldValidation !== 'Ignore') {
      const why = `error converting YAML to JSON: yaml: unmarshal errors:\n${strictErrors.map((error) => `  ${error}`).join('\n')}`;
      if (input.options.fieldValidation === 'Strict')
        throw badRequest(`error strict decoding YAML: ${why}`);
      input.warn(why);
    }
    const object = settleObject(
      input.kind,
      withMetadata(
        { ...merged, metadata: withoutUnreadable(merged.metadata) } as JsonObject,
        input.warn,
      ),
      [],
      { ...input.options, fieldValidation: 'Ignore' },
      input.warn,
    );
    checkName(object, input.name);
    return object;
  };
}

function parseApply(body: Buffer): { value: JsonObject; strictErrors: readonly string[] } {
  const { value, strictErrors } = prefixed(
    'error decoding YAML: error converting YAML to JSON: ',
    () => parseBody(body, 'application/yaml'),
  );
  if (value === null) return { value: {}, strictErrors };
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw badRequest(
      `error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal ${goKind(value)} into Go value of type map[string]interface {}`,
    );
  }
  return { value: value as JsonObject, strictErrors };
}

/** The name of the object must match the path. */
export function checkName(object: ObjectDraft, name: string): void {
  const given = object.metadata.name ?? '';
  if (given === '')
    throw badRequest(
      `the name of the object (${name} based on URL) was undeterminable: name must be provided`,
    );
  if (given !== name)
    throw badRequest(
      `the name of the object (${given}) does not match the name on the URL (${name})`,
    );
}
