// Checks of a write against the live object and the schema, in the words of kube-apiserver. Pure.

import type { Kind } from '../../api/kind.ts';
import { group } from '../../api/object.ts';
import { validateObject, validateStatus } from '../../api/resource-schema.ts';
import { invalidObject } from '../../api/schema/field-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { DeleteOptions } from './delete-options.ts';
import { badRequest } from './errors.ts';
import type { ObjectDraft } from './object-of.ts';

/** The error of Go's parser for a version that is not an unsigned 64-bit number. Empty is valid. */
export function versionProblem(version: string): string | undefined {
  if (!/^\d*$/.test(version)) return 'invalid syntax';
  const digits = version.replace(/^0+/, '');
  // Parsing a very long number is slow.
  return digits.length > 20 || BigInt(digits) >= 2n ** 64n ? 'value out of range' : undefined;
}

export function refuseUnreadable(version: string): void {
  const problem = versionProblem(version);
  if (problem === undefined) return;
  throw badRequest(`strconv.ParseUint: parsing ${JSON.stringify(version)}: ${problem}`);
}

export function refuseInvalid(
  kind: Kind,
  next: ObjectDraft,
  live: ObjectDraft | undefined,
  subresource?: 'status',
): void {
  const errors =
    subresource === 'status' && live !== undefined
      ? validateStatus(kind, next, live)
      : validateObject(kind, next, live);
  if (errors.length > 0) {
    // Uses the name in the object, which may be the error.
    throw invalidObject(
      {
        group: next.apiVersion.split('/')[0] ?? '',
        kind: next.kind,
        name: next.metadata.name ?? '',
      },
      errors,
    );
  }
}

export function checkPreconditions(kind: Kind, live: ObjectDraft, options: DeleteOptions): void {
  const { name = '', uid, resourceVersion } = live.metadata;
  // kube-apiserver uses the kind here, and the resource everywhere else.
  const refuse = (
    what: string,
    asked: string,
    found: string | undefined,
    why: string,
  ): HansaError =>
    new HansaError(
      'HANSA_CONFLICT',
      `Operation cannot be fulfilled on ${kind.kind}.${group} "${name}": the ${what} in the precondition (${asked}) does not match the ${what} in record (${found}). The object might have been ${why}`,
      { details: { name, group, kind: kind.kind } },
    );
  if (options.uid !== undefined && options.uid !== uid) {
    throw refuse('UID', options.uid, uid, 'deleted and then recreated');
  }
  if (options.resourceVersion !== undefined && options.resourceVersion !== resourceVersion) {
    throw refuse('ResourceVersion', options.resourceVersion, resourceVersion, 'modified');
  }
}
