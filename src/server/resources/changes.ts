// The kinds of PATCH: how a request body becomes the next version of an object.

import { recordUpdate, serverSideApply } from '../../api/fields/ownership.ts';
import type { Kind } from '../../api/kind.ts';
import { apiVersion, type Json, type JsonObject } from '../../api/object.ts';
import { applyJsonPatch, decodeJsonPatch } from '../../api/patch/json-patch.ts';
import { applyMergePatch } from '../../api/patch/merge-patch.ts';
import { objectSchema } from '../../api/resource-schema.ts';
import { invalid, invalidObject } from '../../api/schema/field-error.ts';
import { hasCode } from '../../core/errors/error.ts';
import { checkEnvelope, mediaTypeOf, parseBody, settleObject } from './decode.ts';
import { badRequest, unsupportedMediaType } from './errors.ts';
import type { Draft } from './object-of.ts';
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

type ChangeFunction = (live: Draft | undefined) => Draft;

function ownershipOf(input: ChangeInput, live: Draft | undefined) {
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

/** PUT: the object as sent takes the place of the live one. */
export function replaceWith(input: ChangeInput, sent: Draft): ChangeFunction {
  return (live) => recordUpdate({ ...ownershipOf(input, live), next: sent as JsonObject }) as Draft;
}

export function patchWith(input: ChangeInput, type: PatchType, body: Buffer): ChangeFunction {
  if (type === 'application/apply-patch+yaml') return applyWith(input, body);
  const { value: document, strictErrors: duplicates } = parsePatch(body);
  const validation = input.options.fieldValidation;
  const jsonPatch =
    type === 'application/json-patch+json' ? decodeJsonPatch(document, validation) : undefined;
  const strictErrors = [...duplicates, ...(jsonPatch?.unknownFields ?? [])];
  return (live) => {
    // Only an apply creates; the writer never asks anyone else to.
    const current = live as JsonObject;
    const patched =
      jsonPatch === undefined
        ? applyMergePatch(current, document, validation)
        : applyJsonPatch(current, jsonPatch);
    const object = settlePatched(input, patched, strictErrors);
    checkName(object, input.name);
    return recordUpdate({ ...ownershipOf(input, live), next: object as JsonObject }) as Draft;
  };
}

function parsePatch(body: Buffer): { value: Json; strictErrors: readonly string[] } {
  try {
    return parseBody(body, 'application/json');
  } catch (error) {
    if (hasCode(error, 'HANSA_BAD_REQUEST')) {
      throw badRequest(
        error.message.replace(
          "couldn't get version/kind; json parse error",
          'error decoding patch',
        ),
      );
    }
    throw error;
  }
}

/** What is wrong with the result of a patch is said of the patch: kube-apiserver answers 422 there. */
function settlePatched(input: ChangeInput, patched: Json, strictErrors: readonly string[]): Draft {
  try {
    return settleObject(
      input.kind,
      checkEnvelope(input.kind, patched),
      strictErrors,
      input.options,
      input.warn,
    );
  } catch (error) {
    if (!hasCode(error, 'HANSA_BAD_REQUEST')) throw error;
    const prefix = `${input.kind.kind} in version "v1alpha1" cannot be handled as a ${input.kind.kind}: `;
    const why = error.message.startsWith(prefix)
      ? error.message.slice(prefix.length)
      : error.message;
    throw invalidObject({ group: '', kind: '', name: '' }, [
      invalid('patch', JSON.stringify(patched), why),
    ]);
  }
}

function applyWith(input: ChangeInput, body: Buffer): ChangeFunction {
  const { value, strictErrors } = parseApply(body);
  const applied = checkEnvelope(input.kind, value);
  const fields = settleStrictly(input, applied, strictErrors);
  return (live) => {
    const merged = serverSideApply({
      ...ownershipOf(input, live),
      applied: fields as JsonObject,
      force: input.options.force,
    }) as Draft;
    if (merged === live) return live;
    const object = settleObject(
      input.kind,
      merged,
      [],
      { ...input.options, fieldValidation: 'Ignore' },
      input.warn,
    );
    checkName(object, input.name);
    return object;
  };
}

function parseApply(body: Buffer): { value: Json; strictErrors: readonly string[] } {
  try {
    return parseBody(body, 'application/yaml');
  } catch (error) {
    if (hasCode(error, 'HANSA_BAD_REQUEST'))
      throw badRequest(`error decoding YAML: ${error.message}`);
    throw error;
  }
}

/** Unknown fields of an applied configuration; defaults must not be owned, so none are filled in. */
function settleStrictly(
  input: ChangeInput,
  applied: Draft,
  strictErrors: readonly string[],
): Draft {
  settleObject(input.kind, applied, strictErrors, input.options, input.warn);
  return applied;
}

export function checkName(object: Draft, name: string): void {
  const given = object.metadata.name ?? '';
  if (given === '') {
    throw badRequest('name must be provided');
  }
  if (given !== name)
    throw badRequest(
      `the name of the object (${given}) does not match the name on the URL (${name})`,
    );
}
