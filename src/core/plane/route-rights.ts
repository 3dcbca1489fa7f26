// What routes on the api listener say about their callers.

import type { Requester } from '../access/audit-draft.ts';
import type { Attributes, Authorizer } from '../access/authorizer.ts';
import { forbidden } from '../access/denial.ts';
import type { Caller } from '../access/identity.ts';
import { HansaError } from '../errors/error.ts';
import type { ApiRoute, PlaneRequest } from './route.ts';

/** Of a route on the api listener, whose callers are always known. */
export function callerOf({ caller }: Pick<PlaneRequest, 'caller'>): Caller {
  if (caller === undefined) throw new HansaError('HANSA_UNAUTHENTICATED', 'Unauthorized');
  return caller;
}

/** Who asks, for the audit log and for what a controller does later. */
export function requesterOf(
  request: Pick<PlaneRequest, 'caller' | 'address' | 'requestId'>,
): Requester {
  const { address, requestId } = request;
  return {
    caller: callerOf(request),
    origin: { requestId, ...(address === undefined ? {} : { address }) },
  };
}

/** For a route that takes a right on a kind. */
export function needs(
  authorizer: Pick<Authorizer, 'authorize'>,
  rightFor: (request: PlaneRequest) => Attributes,
): ApiRoute['authorize'] {
  return (request) => {
    const caller = callerOf(request);
    const right = rightFor(request);
    if (!authorizer.authorize(caller, right).allowed) throw forbidden(caller, right);
  };
}
