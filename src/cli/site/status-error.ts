// Converts a Kubernetes `Status` into a HansaError: the reverse of server/http/status.ts.

import type { Cause, ErrorCode, ErrorDetails, HansaError } from '../../core/errors/error.ts';
import { type ErrorCatalog, errorOfCode } from '../../core/errors/plane-errors.ts';
import { planeReason } from '../../server/http/status.ts';

const byReason: ReadonlyMap<string, ErrorCode> = new Map(
  Object.entries<ErrorCode>({
    BadRequest: 'HANSA_BAD_REQUEST',
    Unauthorized: 'HANSA_UNAUTHENTICATED',
    Forbidden: 'HANSA_FORBIDDEN',
    NotFound: 'HANSA_NOT_FOUND',
    MethodNotAllowed: 'HANSA_METHOD_NOT_ALLOWED',
    NotAcceptable: 'HANSA_NOT_ACCEPTABLE',
    ApprovalRequired: 'HANSA_APPROVAL_REQUIRED',
    LimitReached: 'HANSA_LIMIT',
    AlreadyExists: 'HANSA_ALREADY_EXISTS',
    Conflict: 'HANSA_CONFLICT',
    Expired: 'HANSA_EXPIRED',
    Gone: 'HANSA_EXPIRED',
    RequestEntityTooLarge: 'HANSA_TOO_LARGE',
    UnsupportedMediaType: 'HANSA_UNSUPPORTED_MEDIA_TYPE',
    Invalid: 'HANSA_INVALID',
    TooManyRequests: 'HANSA_TOO_MANY_REQUESTS',
    Timeout: 'HANSA_TIMEOUT',
    ServerTimeout: 'HANSA_TIMEOUT',
    ServiceUnavailable: 'HANSA_UNAVAILABLE',
    InsufficientStorage: 'HANSA_STORE_FULL',
    JWTInvalid: 'HANSA_JWT_INVALID',
    AuthorityState: 'HANSA_AUTHORITY_STATE',
    ConfigInvalid: 'HANSA_CONFIG_INVALID',
    AuditInvalid: 'HANSA_AUDIT_INVALID',
    PeerUntrusted: 'HANSA_PEER_UNTRUSTED',
  }),
);

const byHttpStatus: Readonly<Record<number, ErrorCode>> = {
  400: 'HANSA_BAD_REQUEST',
  401: 'HANSA_UNAUTHENTICATED',
  403: 'HANSA_FORBIDDEN',
  404: 'HANSA_NOT_FOUND',
  405: 'HANSA_METHOD_NOT_ALLOWED',
  406: 'HANSA_NOT_ACCEPTABLE',
  409: 'HANSA_CONFLICT',
  410: 'HANSA_EXPIRED',
  413: 'HANSA_TOO_LARGE',
  415: 'HANSA_UNSUPPORTED_MEDIA_TYPE',
  422: 'HANSA_INVALID',
  429: 'HANSA_TOO_MANY_REQUESTS',
  431: 'HANSA_TOO_LARGE',
  503: 'HANSA_UNAVAILABLE',
  504: 'HANSA_TIMEOUT',
  507: 'HANSA_STORE_FULL',
};

/** `body` is the response: normally a Status, but a proxy can send anything. */
export function errorFromStatus(
  httpStatus: number,
  body: unknown,
  /** Includes the codes of all planes. */
  catalog: ErrorCatalog,
): HansaError {
  const status = isRecord(body) && body['kind'] === 'Status' ? body : {};
  const reason = typeof status['reason'] === 'string' ? status['reason'] : '';
  const message =
    typeof status['message'] === 'string' && status['message'] !== ''
      ? status['message']
      : `The site answered with HTTP status ${httpStatus} and no explanation.`;
  const code = codeOf(httpStatus, reason, message, catalog);
  const details = isRecord(status['details']) ? readDetails(status['details']) : undefined;
  return errorOfCode(catalog, code, message, details === undefined ? {} : { details });
}

function codeOf(
  httpStatus: number,
  reason: string,
  message: string,
  catalog: ErrorCatalog,
): string {
  // Kubernetes answers this client error with 500, and so does a site. Only the message, which
  // client-go checks too, distinguishes it from an internal error.
  if (httpStatus === 500 && message.startsWith('failed to create typed patch object')) {
    return 'HANSA_APPLY_MISMATCH';
  }
  const ofPlane = [...catalog].find(
    ([code, { like }]) => code !== like && planeReason(code as ErrorCode) === reason,
  );
  return byReason.get(reason) ?? ofPlane?.[0] ?? byHttpStatus[httpStatus] ?? 'HANSA_INTERNAL';
}

function readDetails(details: Readonly<Record<string, unknown>>): ErrorDetails {
  const text = (key: string): Record<string, string> =>
    typeof details[key] === 'string' ? { [key]: details[key] } : {};
  const retryAfterSeconds = details['retryAfterSeconds'];
  return {
    ...text('group'),
    ...text('kind'),
    ...text('name'),
    ...text('uid'),
    ...(Array.isArray(details['causes']) ? { causes: details['causes'].flatMap(readCause) } : {}),
    ...(typeof retryAfterSeconds === 'number' ? { retryAfterSeconds } : {}),
  };
}

function readCause(value: unknown): Cause[] {
  if (!isRecord(value) || typeof value['message'] !== 'string') return [];
  const reason = typeof value['reason'] === 'string' ? value['reason'] : 'Unknown';
  const field = typeof value['field'] === 'string' ? { field: value['field'] } : {};
  return [{ reason, message: value['message'], ...field }];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
