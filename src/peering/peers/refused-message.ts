// Records in the audit log that this site refused a request or an answer of a peer: too large, too often, or not what
// it must be. The audit log aggregates equal records of a minute.

import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Audit } from '../../core/audit/log.ts';
import { hasCode, toHansaError } from '../../core/errors/error.ts';
import { verbOf } from './peer-directory.ts';

/** `path`: of the request, also where the answer is refused. `address`: of the peer that sent a request. */
export function recordRefusedMessage(
  audit: Pick<Audit, 'deny'>,
  peer: string,
  { path, address }: { readonly path: string; readonly address?: string | undefined },
  error: unknown,
): void {
  const { code, message: reason } = toHansaError(error);
  audit.deny({
    actor: {
      user: SpiffeId.of(TrustDomain.parse(peer), 'hansa', 'site').toString(),
      groups: [],
      via: 'certificate',
      ...(address === undefined ? {} : { address }),
    },
    verb: verbOf(path),
    kind: 'FederationPeer',
    name: peer,
    outcome: 'deny',
    code,
    reason,
  });
}

/** Whether the answer of a peer caused the error, and not the way to it or a denial. */
export function isAboutAnswer(error: unknown): boolean {
  return (
    hasCode(error, 'HANSA_BAD_REQUEST') ||
    hasCode(error, 'HANSA_BUNDLE_INVALID') ||
    hasCode(error, 'HANSA_TOO_LARGE')
  );
}
