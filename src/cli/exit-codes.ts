// Maps error codes to exit codes. Scripts rely on the numbers, so their meanings never change.

import type { CoreErrorCode } from '../core/errors/error.ts';
import type { Interrupted } from '../core/plane/command-kit.ts';

export const exitCodes = {
  ok: { code: 0, meaning: 'Success.' },
  failure: { code: 1, meaning: 'An error that has no exit code of its own.' },
  usage: {
    code: 2,
    meaning: 'The command line is wrong, or names a file that cannot be used.',
  },
  invalid: { code: 3, meaning: 'An object, a request or the configuration is invalid.' },
  notFound: { code: 4, meaning: 'The object does not exist.' },
  conflict: {
    code: 5,
    meaning:
      'Conflict: the object already exists, was changed in the meantime, or was already used.',
  },
  unauthenticated: { code: 6, meaning: 'The credential is missing, expired or revoked.' },
  forbidden: { code: 7, meaning: 'The caller is authenticated, but has no right to do this.' },
  unavailable: {
    code: 8,
    meaning: 'The site is unreachable, overloaded or not ready. Try again later.',
  },
  notMet: { code: 9, meaning: 'The expected state was not reached before the timeout.' },
  unhealthy: { code: 10, meaning: 'A check found a problem.' },
  untrusted: { code: 11, meaning: 'A signature, seal, certificate or audit log does not verify.' },
  storage: {
    code: 12,
    meaning: 'The data folder is locked, full, damaged, or from a newer version.',
  },
  cancelled: { code: 13, meaning: 'The user answered no. Nothing was changed.' },
  launcher: { code: 69, meaning: 'The launcher found no suitable Node. Run make setup.' },
  interrupted: { code: 130, meaning: 'Interrupted by the user (Ctrl-C, SIGINT).' },
  brokenPipe: { code: 141, meaning: 'The reader of the output closed the pipe.' },
  terminated: { code: 143, meaning: 'Terminated by SIGTERM before the end.' },
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
  HANSA_APPROVAL_REQUIRED: 'forbidden',
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

/** The exit code of an error, from its `general` code. */
export function exitCodeOf(code: CoreErrorCode): number {
  return exitCodes[byErrorCode[code]].code;
}

/** The exit code after a signal. */
export function exitCodeOfInterruption({ signal }: Interrupted): number {
  return signal === 'SIGINT' ? exitCodes.interrupted.code : exitCodes.terminated.code;
}
