// The gRPC service envoy.service.auth.v3.Authorization. ext-authz.ts makes the decision.

import { create, toBinary } from '@bufbuild/protobuf';
import {
  type handleUnaryCall,
  type ServiceDefinition,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import {
  type CheckRequest,
  CheckRequestSchema,
  CheckResponseSchema,
} from '../../../proto/gen/ext_authz_pb.ts';
import { type AccessDecision, type AccessQuestion, decideAccess } from './ext-authz.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { StoreFederationState } from './federation-state.ts';
import type { Delivery } from '../workload/delivery.ts';
import { grpcMethod } from '../workload/socket/grpc-method.ts';
import type {
  WorkloadConnection,
  WorkloadConnections,
} from '../workload/socket/workload-connections.ts';

export interface AuthorizationApiOptions {
  readonly delivery: Pick<Delivery, 'entriesOf'>;
  readonly connections: WorkloadConnections;
  readonly federationState: StoreFederationState;
  readonly bundles: BundleSource;
  readonly clock: Clock;
  readonly outOfContact: () => string | undefined;
  readonly decided: (
    decision: AccessDecision,
    question: AccessQuestion,
    asker: WorkloadConnection,
  ) => void;
}

export const authorizationApiDefinition: ServiceDefinition = {
  Check: grpcMethod('/envoy.service.auth.v3.Authorization/Check', CheckRequestSchema),
};

const allowed = toBinary(
  CheckResponseSchema,
  create(CheckResponseSchema, { status: { code: status.OK } }),
);
const denied = toBinary(
  CheckResponseSchema,
  create(CheckResponseSchema, {
    status: { code: status.PERMISSION_DENIED, message: 'denied' },
    deniedResponse: { status: { code: 403 }, body: 'denied' },
  }),
);

export function authorizationApi(options: AuthorizationApiOptions): UntypedServiceImplementation {
  const { delivery, connections, federationState, bundles, clock, outOfContact, decided } = options;
  const check: handleUnaryCall<CheckRequest, Uint8Array> = (call, answer) => {
    const asker = connections.get(call.getPeer());
    if (asker === undefined) {
      answer({ code: status.UNAVAILABLE, details: 'The connection is closed.' });
      return;
    }
    const question = questionOf(call.request);
    const decision = decideAccess(question, {
      askers: delivery.entriesOf(asker.process),
      federationState: federationState.current,
      bundles,
      nowMs: clock.now(),
      outOfContact: outOfContact(),
    });
    decided(decision, question, asker);
    answer(null, decision.allowed ? allowed : denied);
  };
  return { Check: check };
}

/** What is used of a request. */
export function questionOf({ attributes }: CheckRequest): AccessQuestion {
  return {
    principal: attributes?.source?.principal ?? '',
    certificate: attributes?.source?.certificate ?? '',
    sourceAddress: attributes?.source?.address?.socketAddress?.address ?? '',
    // An HTTP request whose method is not known (empty) needs what the strictest needs.
    method: attributes?.request?.http?.method,
    offer: attributes?.contextExtensions['offer'] ?? '',
  };
}
