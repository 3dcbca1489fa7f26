// Defines a method of the workload socket for grpc-js. It parses requests by their schema. Responses are
// already encoded, so that no call encodes or copies them.

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
