// The error codes of the auth plane.

import { errorMaker, type PlaneErrors } from '../core/errors/plane-errors.ts';

export const authErrors = {
  HANSA_UNKNOWN_CLUSTER: {
    like: 'HANSA_NOT_FOUND',
    meaning: 'The host name or path of the request names no registered cluster.',
    remedy:
      '`hansa cluster list` shows the clusters and their host names. Register one with `hansa cluster add`.',
  },
} as const satisfies PlaneErrors;

declare module '../core/errors/error.ts' {
  interface PlaneErrorCodes extends Record<keyof typeof authErrors, true> {}
}

export const authError = errorMaker(authErrors);
