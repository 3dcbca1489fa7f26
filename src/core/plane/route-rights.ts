// What routes on the api listener say about their callers.

import type { Attributes, Authorizer } from '../access/authorizer.ts';
import { forbidden } from '../access/denial.ts';
import type { Caller } from '../access/identity.ts';
import { HansaError } from '../errors/error.ts';
import type { ApiRoute, PlaneRequest } from './plane.ts';

/** Of a route on the api listener, whose callers are always known. */
export function callerOf({ caller }: Pick<PlaneRequest, 'caller'>): Caller {
  if (caller === undefined) throw new HansaError('HANSA_UNAUTHENTICATED', 'Unauthorized');
  return caller;
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
