// How a refused request becomes a record of the audit log.

import { actorOf } from '../core/access/audit-draft.ts';
import { anonymous } from '../core/access/identity.ts';
import type { Audit } from '../core/audit/log.ts';
import type { FederationFrontParts } from './federation-listener.ts';
import type { FrontParts } from './http/front.ts';

export function denials(audit: Pick<Audit, 'deny'>): {
  readonly ofCallers: FrontParts['denied'];
  readonly ofPeers: FederationFrontParts['denied'];
} {
  return {
    ofCallers: (caller, error, { method, address }) =>
      audit.deny({
        actor: actorOf(caller, address === undefined ? {} : { address }),
        verb: method.toLowerCase(),
        outcome: 'deny',
        code: error.code,
        reason: error.code === 'HANSA_UNAUTHENTICATED' ? 'no good credential' : error.message,
      }),
    ofPeers: (peer, error, { route, address }) =>
      audit.deny({
        actor: {
          ...(peer === undefined ? actorOf(anonymous) : { user: peer, groups: [], via: 'peer' }),
          ...(address === undefined ? {} : { address }),
        },
        verb: 'federation',
        outcome: 'deny',
        code: error.code,
        reason: `${route}: ${error.message}`,
      }),
  };
}
