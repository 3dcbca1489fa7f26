// The errors of the resource API, in the words of kube-apiserver, because clients match on them.

import type { Kind } from '../../api/kind.ts';
import { group } from '../../api/object.ts';
import { type ErrorDetails, HansaError } from '../../core/errors/error.ts';

/** `roles.hansa.dev`, as kube-apiserver names a resource in messages. */
export function resourceName(kind: Kind): string {
  return `${kind.plural}.${group}`;
}

function about(kind: Kind, name: string): ErrorDetails {
  return { ...(name === '' ? {} : { name }), group, kind: kind.plural };
}

export function notFound(kind: Kind, name: string): HansaError {
  return new HansaError('HANSA_NOT_FOUND', `${resourceName(kind)} "${name}" not found`, {
    details: about(kind, name),
  });
}

/** `deleting`: the existing object waits for its finalizers. */
export function alreadyExists(kind: Kind, name: string, deleting = false): HansaError {
  const prefix = deleting ? 'object is being deleted: ' : '';
  return new HansaError(
    'HANSA_ALREADY_EXISTS',
    `${prefix}${resourceName(kind)} "${name}" already exists`,
    {
      details: about(kind, name),
    },
  );
}

export function conflict(kind: Kind, name: string, why: string): HansaError {
  return new HansaError(
    'HANSA_CONFLICT',
    `Operation cannot be fulfilled on ${resourceName(kind)} "${name}": ${why}`,
    { details: about(kind, name) },
  );
}

export const modifiedSince =
  'the object has been modified; please apply your changes to the latest version and try again';

export function badRequest(message: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', message);
}

export function unsupportedMediaType(accepted: readonly string[]): HansaError {
  return new HansaError(
    'HANSA_UNSUPPORTED_MEDIA_TYPE',
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`,
  );
}

export function notAcceptable(offered: readonly string[]): HansaError {
  return new HansaError(
    'HANSA_NOT_ACCEPTABLE',
    `only the following media types are accepted: ${offered.join(', ')}`,
  );
}

export function notAcceptableForm(why: string): HansaError {
  return new HansaError('HANSA_NOT_ACCEPTABLE', why);
}

export function methodNotAllowed(kind: Kind, verb: string): HansaError {
  return new HansaError(
    'HANSA_METHOD_NOT_ALLOWED',
    `${verb} is not supported on resources of kind "${resourceName(kind)}"`,
    {
      details: { group, kind: kind.plural },
    },
  );
}
