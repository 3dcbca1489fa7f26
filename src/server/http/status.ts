// Maps error codes to HTTP: a Kubernetes `Status` with its code and reason.

import type {
  CoreErrorCode,
  ErrorCode,
  ErrorDetails,
  HansaError,
} from '../../core/errors/error.ts';

interface HttpMapping {
  readonly status: number;
  /** The machine-readable reason of a Kubernetes Status. Some errors of kube-apiserver have none. */
  readonly reason?: string;
}

const internal: HttpMapping = { status: 500, reason: 'InternalError' };

const mappings: Readonly<Record<CoreErrorCode, HttpMapping>> = {
  HANSA_BAD_REQUEST: { status: 400, reason: 'BadRequest' },
  HANSA_UNAUTHENTICATED: { status: 401, reason: 'Unauthorized' },
  HANSA_FORBIDDEN: { status: 403, reason: 'Forbidden' },
  HANSA_APPROVAL_REQUIRED: { status: 403, reason: 'ApprovalRequired' },
  HANSA_LIMIT: { status: 403, reason: 'LimitReached' },
  HANSA_NOT_FOUND: { status: 404, reason: 'NotFound' },
  HANSA_METHOD_NOT_ALLOWED: { status: 405, reason: 'MethodNotAllowed' },
  HANSA_NOT_ACCEPTABLE: { status: 406, reason: 'NotAcceptable' },
  HANSA_ALREADY_EXISTS: { status: 409, reason: 'AlreadyExists' },
  // kube-apiserver sends this for an apply configuration that does not match the schema.
  HANSA_APPLY_MISMATCH: { status: 500 },
  HANSA_CONFLICT: { status: 409, reason: 'Conflict' },
  HANSA_FENCED: { status: 409, reason: 'Conflict' },
  HANSA_EXPIRED: { status: 410, reason: 'Expired' },
  HANSA_TOO_LARGE: { status: 413, reason: 'RequestEntityTooLarge' },
  HANSA_UNSUPPORTED_MEDIA_TYPE: { status: 415, reason: 'UnsupportedMediaType' },
  HANSA_INVALID: { status: 422, reason: 'Invalid' },
  HANSA_CERTIFICATE_INVALID: { status: 401, reason: 'Unauthorized' },
  HANSA_JWT_INVALID: { status: 422, reason: 'JWTInvalid' },
  HANSA_BUNDLE_INVALID: { status: 422, reason: 'Invalid' },
  HANSA_TOO_MANY_REQUESTS: { status: 429, reason: 'TooManyRequests' },
  HANSA_TIMEOUT: { status: 504, reason: 'Timeout' },
  HANSA_UNAVAILABLE: { status: 503, reason: 'ServiceUnavailable' },
  HANSA_STORE_FULL: { status: 507, reason: 'InsufficientStorage' },
  HANSA_STORE_CORRUPT: internal,
  HANSA_STORE_NEWER: internal,
  HANSA_STORE_LOCKED: internal,
  HANSA_SEAL_BROKEN: internal,
  HANSA_CLOCK_DOUBTFUL: internal,
  HANSA_AUTHORITY_STATE: { status: 409, reason: 'AuthorityState' },
  // For the log of the site itself, which no longer fits its checkpoints.
  HANSA_AUDIT_INVALID: { status: 500, reason: 'AuditInvalid' },
  // For files that a running site reads again, such as those of an upstream authority.
  HANSA_CONFIG_INVALID: { status: 500, reason: 'ConfigInvalid' },
  HANSA_USAGE: internal,
  HANSA_CANCELLED: internal,
  HANSA_UNREACHABLE: internal,
  HANSA_PEER_UNTRUSTED: { status: 502, reason: 'PeerUntrusted' },
  HANSA_CONDITION_NOT_MET: internal,
  HANSA_UNHEALTHY: internal,
  HANSA_INTERNAL: internal,
};

export interface Status {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: { readonly continue?: string };
  readonly status: 'Success' | 'Failure';
  readonly message?: string;
  readonly reason?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly code?: number;
}

export function httpStatusOf(error: HansaError): number {
  return mappings[error.general].status;
}

export function statusOf(error: HansaError): Status {
  const { code, general } = error;
  const { status, reason: generalReason } = mappings[general];
  const reason = code === general ? generalReason : planeReason(code);
  const details = error.details;
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: details?.continueToken === undefined ? {} : { continue: details.continueToken },
    status: 'Failure',
    message: error.message,
    ...(reason === undefined ? {} : { reason }),
    ...(details === undefined ? {} : { details: wireDetails(details) }),
    code: status,
  };
}

/** The reason for an error code of a plane: `HANSA_PEER_STATE` becomes `PeerState`. */
export function planeReason(code: ErrorCode): string {
  return code
    .slice('HANSA_'.length)
    .toLowerCase()
    .replaceAll(/(?:^|_)([a-z0-9])/g, (_, first: string) => first.toUpperCase());
}

/** Omits empty strings, as Go does. */
function wireDetails(details: ErrorDetails): Readonly<Record<string, unknown>> {
  const { continueToken: _continueToken, ...rest } = details;
  return Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ''));
}
