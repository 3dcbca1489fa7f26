// Why a fetch of keys failed, and whether the keys of before outlive the failure.

import { HansaError } from '../../core/errors/error.ts';

/** Why a fetch failed. `reason` is one word, for conditions and metrics. */
export interface KeyFailure {
  readonly reason: KeyFailureReason;
  /** What happened where, and what to do. Contains no secret. */
  readonly message: string;
  /** The site may not use the keys of before any more. Otherwise they are used for a bounded time. */
  readonly ends?: true;
}

export type KeyFailureReason =
  | 'Unreachable'
  | 'CertificateInvalid'
  | 'CredentialMissing'
  | 'Unauthorized'
  | 'Forbidden'
  | 'NoDiscovery'
  | 'UnexpectedStatus'
  | 'Redirected'
  | 'TooLarge'
  | 'InvalidConfiguration'
  | 'IssuerMismatch'
  | 'InvalidKeys'
  | 'SharedKeys'
  | 'Unproven'
  | 'PeerUntrusted'
  | 'NotGranted'
  | 'AnotherCluster';

/** A HansaError, because the transport passes only those through. */
class DiscoveryError extends HansaError {
  readonly reason: KeyFailureReason;
  readonly ends: boolean;

  constructor(reason: KeyFailureReason, message: string, ends: boolean) {
    super('HANSA_UNAVAILABLE', message);
    this.reason = reason;
    this.ends = ends;
  }
}

export function problem(reason: KeyFailureReason, message: string): HansaError {
  return new DiscoveryError(reason, message, false);
}

/** The keys of before end with this failure. */
export function endOfKeys(reason: KeyFailureReason, message: string): HansaError {
  return new DiscoveryError(reason, message, true);
}

export function failureOf(caught: unknown): KeyFailure {
  if (!(caught instanceof HansaError)) throw caught;
  const ends = caught instanceof DiscoveryError && caught.ends;
  return { reason: reasonOf(caught), message: caught.message, ...(ends ? { ends } : {}) };
}

function reasonOf(error: HansaError): KeyFailureReason {
  if (error instanceof DiscoveryError) return error.reason;
  switch (error.code) {
    case 'HANSA_CERTIFICATE_INVALID':
      return 'CertificateInvalid';
    case 'HANSA_TOO_LARGE':
      return 'TooLarge';
    case 'HANSA_UNAVAILABLE':
      return 'CredentialMissing';
    default:
      return 'Unreachable';
  }
}
