// The one place where the error taxonomy becomes exit codes. Scripts rely on them: a number never
// changes its meaning.

import type { CoreErrorCode } from '../core/errors/error.ts';
import type { Interrupted } from '../core/plane/command-kit.ts';

export const exitCodes = {
  ok: { code: 0, meaning: 'It is done.' },
  failure: { code: 1, meaning: 'Something failed that has no number of its own.' },
  usage: {
    code: 2,
    meaning: 'The command line was not understood, or names a file that cannot be used.',
  },
  invalid: { code: 3, meaning: 'An object, a request or the configuration is not acceptable.' },
  notFound: { code: 4, meaning: 'There is no such object.' },
  conflict: { code: 5, meaning: 'It exists already, was changed meanwhile, or was used up.' },
  unauthenticated: { code: 6, meaning: 'The credential is missing, expired or revoked.' },
  forbidden: { code: 7, meaning: 'The caller is known, but may not.' },
  unavailable: { code: 8, meaning: 'The site cannot be reached, or not now. Try again later.' },
  notMet: { code: 9, meaning: 'The expected state was not reached before the timeout.' },
  unhealthy: { code: 10, meaning: 'A check found a problem.' },
  untrusted: { code: 11, meaning: 'A signature, seal, certificate or audit log does not verify.' },
  storage: { code: 12, meaning: 'The data folder cannot be used: locked, full, newer or damaged.' },
  cancelled: { code: 13, meaning: 'The user answered no. Nothing was changed.' },
  launcher: { code: 69, meaning: 'The launcher found no suitable Node; run make setup.' },
  interrupted: { code: 130, meaning: 'Interrupted by the user (Ctrl-C, SIGINT).' },
  brokenPipe: { code: 141, meaning: 'What read the output wanted no more of it.' },
  terminated: { code: 143, meaning: 'Ended by SIGTERM before it was done.' },
} as const satisfies Record<string, { code: number; meaning: string }>;

type ExitName = keyof typeof exitCodes;

const byErrorCode: Readonly<Record<CoreErrorCode, ExitName>> = {
  HANSA_BAD_REQUEST: 'invalid',
  HANSA_INVALID: 'invalid',
  HANSA_NOT_FOUND: 'notFound',
  HANSA_ALREADY_EXISTS: 'conflict',
  HANSA_CONFLICT: 'conflict',
  HANSA_APPLY_MISMATCH: 'invalid',
  HANSA_EXPIRED: 'conflict',
  HANSA_UNAUTHENTICATED: 'unauthenticated',
  HANSA_FORBIDDEN: 'forbidden',
  HANSA_METHOD_NOT_ALLOWED: 'invalid',
  HANSA_NOT_ACCEPTABLE: 'invalid',
  HANSA_UNSUPPORTED_MEDIA_TYPE: 'invalid',
  HANSA_TOO_LARGE: 'invalid',
  HANSA_TOO_MANY_REQUESTS: 'unavailable',
  HANSA_TIMEOUT: 'unavailable',
  HANSA_UNAVAILABLE: 'unavailable',
  HANSA_STORE_FULL: 'storage',
  HANSA_STORE_CORRUPT: 'storage',
  HANSA_STORE_NEWER: 'storage',
  HANSA_STORE_LOCKED: 'storage',
  HANSA_FENCED: 'conflict',
  HANSA_SEAL_BROKEN: 'untrusted',
  HANSA_CERTIFICATE_INVALID: 'untrusted',
  HANSA_JWT_INVALID: 'untrusted',
  HANSA_BUNDLE_INVALID: 'untrusted',
  HANSA_AUDIT_INVALID: 'untrusted',
  HANSA_CONFIG_INVALID: 'invalid',
  HANSA_USAGE: 'usage',
  HANSA_CANCELLED: 'cancelled',
  HANSA_UNREACHABLE: 'unavailable',
  HANSA_CLOCK_DOUBTFUL: 'conflict',
  HANSA_AUTHORITY_STATE: 'conflict',
  HANSA_LIMIT: 'conflict',
  HANSA_PEER_UNTRUSTED: 'untrusted',
  HANSA_CONDITION_NOT_MET: 'notMet',
  HANSA_UNHEALTHY: 'unhealthy',
  HANSA_INTERNAL: 'failure',
};

/** Of an error: by its `general` code. */
export function exitCodeOf(code: CoreErrorCode): number {
  return exitCodes[byErrorCode[code]].code;
}

/** Of an error: by its `general` code. */
export function exitCodeOfInterruption({ signal }: Interrupted): number {
  return signal === 'SIGINT' ? exitCodes.interrupted.code : exitCodes.terminated.code;
}
