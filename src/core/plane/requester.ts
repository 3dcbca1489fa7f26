// Converts an API request into the `Requester` that audit records and controllers keep: the caller,
// the address and the request ID.

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
