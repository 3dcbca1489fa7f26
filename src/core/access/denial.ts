// Errors for denied requests, in the words of kube-apiserver, so that kubectl and its users
// understand them.

import { group } from '../../api/object.ts';
import { HansaError } from '../errors/error.ts';
import type { Attributes } from './authorizer.ts';
import type { Caller } from './identity.ts';

/** Escapes HTML in denials, as kube-apiserver does. */
function withoutMarkup(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

export function forbidden(caller: Caller, request: Attributes): HansaError {
  const resource =
    request.subresource === undefined || request.subresource === ''
      ? request.plural
      : `${request.plural}/${request.subresource}`;
  return forbiddenObject(
    request.plural,
    request.name,
    withoutMarkup(
      `User ${JSON.stringify(caller.user)} cannot ${request.verb} resource ${JSON.stringify(resource)} in API group "${group}" at the cluster scope`,
    ),
  );
}

export function forbiddenPath(caller: Caller, verb: string, path: string): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    withoutMarkup(
      `forbidden: User ${JSON.stringify(caller.user)} cannot ${verb} path ${JSON.stringify(path)}`,
    ),
  );
}

/** For a request that asks for impersonation. */
export function forbiddenImpersonation(
  caller: Caller,
  kind: 'users' | 'groups' | 'uids',
  asked: string,
): HansaError {
  const name = asked.slice(0, 253);
  const why = withoutMarkup(
    `User ${JSON.stringify(caller.user)} cannot impersonate resource "${kind}" in API group "" at the cluster scope: this site does not support impersonation`,
  );
  return new HansaError('HANSA_FORBIDDEN', `${kind} ${JSON.stringify(name)} is forbidden: ${why}`, {
    details: { kind, name },
  });
}

/** `sites.hansa.dev "lubeck" is forbidden: …`, with the object in the details of the status. */
export function forbiddenObject(plural: string, name: string | undefined, why: string): HansaError {
  const named = name === undefined || name === '' ? '' : ` ${JSON.stringify(name)}`;
  return new HansaError('HANSA_FORBIDDEN', `${plural}.${group}${named} is forbidden: ${why}`, {
    details: { group, kind: plural, ...(named === '' ? {} : { name: name as string }) },
  });
}

/** As in kube-apiserver, the caller does not learn why its credential is invalid; the log has the reason. */
export function unauthorized(reason: string): HansaError {
  return new HansaError('HANSA_UNAUTHENTICATED', 'Unauthorized', { cause: reason });
}
