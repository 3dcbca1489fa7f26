// Converts HansaErrors to errors of grpc-js for the services of the workload socket, and back. The
// mapping is in core/rpc.

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

/** Converts back, for our client of the socket. */
export function errorOfStatus({ code, details }: GrpcStatus): HansaError {
  return errorOfRpcStatus({ code, message: details });
}
