// A method on the workload socket as grpc-js takes it: requests are read by their description, and
// answers are ready-made bytes, so that nothing is encoded or copied for a call.

import { type DescMessage, fromBinary } from '@bufbuild/protobuf';
import type { MethodDefinition } from '@grpc/grpc-js';

export interface Streams {
  readonly requests: boolean;
  readonly responses: boolean;
}

export function grpcMethod(
  path: string,
  request: DescMessage,
  { requests, responses }: Streams = { requests: false, responses: false },
): MethodDefinition<unknown, Uint8Array> {
  return {
    path,
    requestStream: requests,
    responseStream: responses,
    requestSerialize: () => {
      throw new TypeError('requests are read here, and never written');
    },
    requestDeserialize: (bytes) => fromBinary(request, bytes),
    responseSerialize: (value) => Buffer.from(value.buffer, value.byteOffset, value.byteLength),
    responseDeserialize: (bytes) => bytes,
  };
}
