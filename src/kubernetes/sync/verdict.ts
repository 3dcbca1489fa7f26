// Turns the answer of the site about an object into what its condition in the cluster says. Pure.

import { type CoreErrorCode, HansaError } from '../../core/errors/error.ts';
import { printableText } from '../../core/kube/kube-errors.ts';
import type { Verdict } from './mirrored-status.ts';

/** As much of an error as the status of an object shows. */
const maxMessageLength = 1024;

/** Failures that stay until somebody changes something. */
const reasons: ReadonlyMap<CoreErrorCode, string> = new Map<CoreErrorCode, string>([
  ['HANSA_FORBIDDEN', 'Forbidden'],
  ['HANSA_APPROVAL_REQUIRED', 'ApprovalRequired'],
  ['HANSA_INVALID', 'Invalid'],
  ['HANSA_BAD_REQUEST', 'Invalid'],
  ['HANSA_APPLY_MISMATCH', 'Invalid'],
  ['HANSA_BUNDLE_INVALID', 'Invalid'],
  ['HANSA_CERTIFICATE_INVALID', 'Invalid'],
  ['HANSA_ALREADY_EXISTS', 'Conflict'],
  ['HANSA_NOT_FOUND', 'NotFound'],
  ['HANSA_LIMIT', 'Limit'],
  ['HANSA_TOO_LARGE', 'TooLarge'],
]);

export function acceptedBy(trustDomain: string): Verdict {
  return {
    status: 'True',
    reason: 'Accepted',
    message: `The site ${trustDomain} has this version.`,
  };
}

/** Undefined for a failure that a retry may fix. */
export function refusalBy(trustDomain: string, error: unknown): Verdict | undefined {
  if (!(error instanceof HansaError)) return undefined;
  const reason = reasons.get(error.general);
  return reason === undefined ? undefined : refused(trustDomain, reason, error.message);
}

function refused(trustDomain: string, reason: string, why: string): Verdict {
  const text = printableText(why, maxMessageLength);
  return {
    status: 'False',
    reason,
    message: `The site ${trustDomain} refuses this version: ${text}`,
  };
}

/** While the site has claimed an object and not looked at it yet. */
export const pending: Verdict = {
  status: 'Unknown',
  reason: 'Pending',
  message: 'A site has found this object and has not decided yet.',
};
