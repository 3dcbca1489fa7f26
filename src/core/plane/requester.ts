// Who asks, as routes on the api listener pass it on.

import type { Requester } from '../access/audit-draft.ts';
import type { ApiRequest } from './route.ts';

/** Who asks, for the audit log and for what a controller does later. */
export function requesterOf({
  caller,
  address,
  requestId,
}: Pick<ApiRequest, 'caller' | 'address' | 'requestId'>): Requester {
  return { caller, origin: { requestId, ...(address === undefined ? {} : { address }) } };
}
