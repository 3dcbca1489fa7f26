// The gRPC health service on the workload socket, for `spire-agent healthcheck` and supervisors of
// workloads. It reveals no more than /readyz, so every process may call it.

import { create, toBinary } from '@bufbuild/protobuf';
import {
  type handleUnaryCall,
  type ServiceDefinition,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import {
  type HealthCheckRequest,
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
} from '../../../../proto/gen/health_pb.ts';
import { excerpt } from '../../../api/values/trust-domain.ts';
import { grpcMethod } from './grpc-method.ts';

export const healthDefinition: ServiceDefinition = {
  Check: grpcMethod('/grpc.health.v1.Health/Check', HealthCheckRequestSchema),
};

const serving = toBinary(
  HealthCheckResponseSchema,
  create(HealthCheckResponseSchema, { status: 1 }),
);
const notServing = toBinary(
  HealthCheckResponseSchema,
  create(HealthCheckResponseSchema, { status: 2 }),
);

/** `services` are the names that may be asked for, beside none. */
export function healthService(
  services: readonly string[],
  isServing: () => boolean,
): UntypedServiceImplementation {
  const known = new Set(['', ...services]);
  const check: handleUnaryCall<HealthCheckRequest, Uint8Array> = ({ request }, answer) => {
    if (known.has(request.service)) {
      answer(null, isServing() ? serving : notServing);
    } else {
      const details = `There is no ${excerpt(request.service)} here.`;
      answer({ code: status.NOT_FOUND, details });
    }
  };
  return { Check: check };
}
