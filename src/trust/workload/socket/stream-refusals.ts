// What whoever calls on the workload socket hears where there is nothing for it: the same words for
// every service there. SPIFFE Workload Endpoint section 6 says which is which.

import { HansaError } from '../../../core/errors/error.ts';
import type { WorkloadProcess } from '../entries/workload-process.ts';

export function connectionGone(): HansaError {
  return new HansaError('HANSA_UNAVAILABLE', 'The connection is gone.');
}

/** A child may hold the connection of a process that is gone, or of another program: it must come by itself. */
export function anotherProcess(): HansaError {
  return new HansaError(
    'HANSA_UNAUTHENTICATED',
    'The process that asked has ended, or runs another program.',
  );
}

export function noIdentity({ description }: WorkloadProcess): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    `No identity is registered for this process (${description}). A WorkloadEntry whose selectors are all true of it gives it one.`,
  );
}

export function noSvidNow(): HansaError {
  return new HansaError(
    'HANSA_UNAVAILABLE',
    'No SVID can be issued now. Try again; the log of the site tells why.',
  );
}
