// The mapping between error codes of Hansa and gRPC status codes, and the encoding of gRPC status
// messages and timeouts.

import { type CoreErrorCode, HansaError, toHansaError } from '../errors/error.ts';

/** The gRPC status codes (doc/statuscodes.md) that Hansa uses. */
export const rpcStatus = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

const numbers: Partial<Record<CoreErrorCode, number>> = {
  HANSA_BAD_REQUEST: rpcStatus.invalidArgument,
  HANSA_INVALID: rpcStatus.invalidArgument,
  HANSA_CERTIFICATE_INVALID: rpcStatus.invalidArgument,
  HANSA_JWT_INVALID: rpcStatus.invalidArgument,
  HANSA_NOT_FOUND: rpcStatus.notFound,
  HANSA_ALREADY_EXISTS: rpcStatus.alreadyExists,
  HANSA_UNAUTHENTICATED: rpcStatus.unauthenticated,
  HANSA_FORBIDDEN: rpcStatus.permissionDenied,
  HANSA_TOO_MANY_REQUESTS: rpcStatus.resourceExhausted,
  HANSA_TOO_LARGE: rpcStatus.resourceExhausted,
  HANSA_TIMEOUT: rpcStatus.deadlineExceeded,
  HANSA_METHOD_NOT_ALLOWED: rpcStatus.unimplemented,
  HANSA_UNAVAILABLE: rpcStatus.unavailable,
};

export interface RpcStatus {
  readonly code: number;
  readonly message: string;
}

export function rpcStatusOf(caught: unknown): RpcStatus {
  const error = toHansaError(caught);
  return { code: numbers[error.general] ?? rpcStatus.internal, message: error.message };
}

export function errorOfRpcStatus({ code, message }: RpcStatus): HansaError {
  const known = Object.entries(numbers).find(([, number]) => number === code);
  return new HansaError((known?.[0] as CoreErrorCode | undefined) ?? 'HANSA_INTERNAL', message);
}

/** PROTOCOL-HTTP2, Status-Message: what is not printable ASCII, and %, as %XX of UTF-8. */
export function encodeStatusMessage(message: string): string {
  return message
    .toWellFormed()
    .replace(/[^ -$&-~]/gu, (character) =>
      [...Buffer.from(character)]
        .map((byte) => `%${byte.toString(16).padStart(2, '0').toUpperCase()}`)
        .join(''),
    );
}

/** Keeps invalid escapes unchanged, as the protocol requires. */
export function decodeStatusMessage(text: string): string {
  const bytes = Buffer.from(
    text.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    ),
    'latin1',
  );
  return bytes.toString('utf8');
}

const unitMs: ReadonlyMap<string, number> = new Map(
  Object.entries<number>({
    H: 3_600_000,
    M: 60_000,
    S: 1000,
    m: 1,
    u: 0.001,
    n: 0.000_001,
  }),
);

/** The header grpc-timeout: at most eight digits and a unit. Undefined where it is not one. */
export function parseTimeout(header: string): number | undefined {
  const [, digits = '', unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(header) ?? [];
  const factor = unitMs.get(unit);
  return factor === undefined ? undefined : Number(digits) * factor;
}
