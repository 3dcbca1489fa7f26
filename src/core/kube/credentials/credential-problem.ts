// Why a cluster has no usable credential: an error for requests, with a reason for the condition.

import { HansaError } from '../../errors/error.ts';

export type CredentialReason =
  | 'NotSet'
  | 'BindingChanged'
  | 'FileUnreadable'
  | 'NoToken'
  | 'BadCertificate'
  | 'NotInCluster'
  | 'NoIssuer';

/** `message` says what to do. */
export function credentialProblem(
  reason: CredentialReason,
  message: string,
  cause?: unknown,
): HansaError {
  return new HansaError('HANSA_UNAVAILABLE', message, {
    cause,
    details: { causes: [{ reason, message }] },
  });
}

/** The reason of a `credentialProblem`; undefined for other errors. */
export function problemReason(caught: unknown): string | undefined {
  return caught instanceof HansaError ? caught.details?.causes?.[0]?.reason : undefined;
}
