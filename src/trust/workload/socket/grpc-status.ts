// Our errors as grpc-js takes them, for everything that is served on the workload socket. The mapping
// itself is in core/rpc.

import type { status } from '@grpc/grpc-js';
import type { HansaError } from '../../../core/errors/error.ts';
import { errorOfRpcStatus, rpcStatusOf } from '../../../core/rpc/status.ts';

export interface GrpcStatus {
  readonly code: status;
  readonly details: string;
}

export function grpcStatus(caught: unknown): GrpcStatus {
  const { code, message } = rpcStatusOf(caught);
  return { code, details: message };
}

/** The way back, for our own client of the socket. */
export function errorOfStatus({ code, details }: GrpcStatus): HansaError {
  return errorOfRpcStatus({ code, message: details });
}
