// Our errors as gRPC knows them: the one mapping, for everything that is served on the workload socket.

import { status } from '@grpc/grpc-js';
import { type ErrorCode, HansaError, toHansaError } from '../../core/errors/error.ts';

export interface GrpcStatus {
  readonly code: status;
  readonly details: string;
}

const codes: Partial<Record<ErrorCode, status>> = {
  HANSA_BAD_REQUEST: status.INVALID_ARGUMENT,
  HANSA_INVALID: status.INVALID_ARGUMENT,
  HANSA_CERTIFICATE_INVALID: status.INVALID_ARGUMENT,
  HANSA_JWT_INVALID: status.INVALID_ARGUMENT,
  HANSA_NOT_FOUND: status.NOT_FOUND,
  HANSA_UNAUTHENTICATED: status.UNAUTHENTICATED,
  HANSA_FORBIDDEN: status.PERMISSION_DENIED,
  HANSA_TOO_MANY_REQUESTS: status.RESOURCE_EXHAUSTED,
  HANSA_TOO_LARGE: status.RESOURCE_EXHAUSTED,
  HANSA_UNAVAILABLE: status.UNAVAILABLE,
};

export function grpcStatus(caught: unknown): GrpcStatus {
  const error = caught instanceof HansaError ? caught : toHansaError(caught);
  return { code: codes[error.code] ?? status.INTERNAL, details: error.message };
}

/** The way back, for our own client of the socket. */
export function errorOfStatus({ code, details }: GrpcStatus): HansaError {
  const known = Object.entries(codes).find(([, mapped]) => mapped === code);
  return new HansaError((known?.[0] as ErrorCode | undefined) ?? 'HANSA_INTERNAL', details);
}
