// The errors for callers of the workload socket that get no SVID, the same for every service. SPIFFE
// Workload Endpoint section 6 defines the codes.

import { HansaError } from '../../../core/errors/error.ts';
import type { WorkloadProcess } from '../entries/workload-process.ts';

export function connectionGone(): HansaError {
  return new HansaError('HANSA_UNAVAILABLE', 'The connection is closed.');
}

/** A child process may have inherited the connection. It must open its own. */
export function anotherProcess(): HansaError {
  return new HansaError(
    'HANSA_UNAUTHENTICATED',
    'The process that opened this connection has ended, or runs another program.',
  );
}

export function noIdentity({ description }: WorkloadProcess): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    `No identity is registered for this process (${description}). Create a WorkloadEntry whose selectors all match it, and that applies on this machine (spec.agents).`,
  );
}

export function noSvidNow(): HansaError {
  return new HansaError(
    'HANSA_UNAVAILABLE',
    'No SVID can be issued now. Try again later. The log of the server behind this socket has the reason.',
  );
}
