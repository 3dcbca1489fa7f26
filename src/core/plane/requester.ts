// The user behind a request, as routes on the api listener pass it on.

import type { Requester } from '../access/audit-draft.ts';
import type { ApiRequest } from './route.ts';

/** The user behind a request, for the audit log and for later work of controllers. */
export function requesterOf({
  caller,
  address,
  requestId,
}: Pick<ApiRequest, 'caller' | 'address' | 'requestId'>): Requester {
  return { caller, origin: { requestId, ...(address === undefined ? {} : { address }) } };
}
