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
import {
  type AccessDecision,
  type AccessQuestion,
  decideAccess,
  UnverifiedCaller,
} from './ext-authz.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { ChainVerifier, strangerRate } from '../../core/identity/x509/chain-verifier.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';
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

/** Users of this machine that ask about callers. */
const maxUsers = 1_024;

const tooManyWrong: AccessDecision = {
  allowed: false,
  kind: 'caller',
  reason:
    'the user that asks has presented too many certificates with wrong signatures. This one was not verified',
  id: undefined,
};

export function authorizationApi(options: AuthorizationApiOptions): UntypedServiceImplementation {
  const { delivery, connections, federationState, bundles, clock, outOfContact, decided } = options;
  const budget = new TokenBuckets({ clock, maxKeys: maxUsers, ...strangerRate });
  const chains = new ChainVerifier({ bundles, budget });
  const decide = (question: AccessQuestion, asker: WorkloadConnection): AccessDecision => {
    const nowMs = clock.now();
    return decideAccess(question, {
      askers: delivery.entriesOf(asker.process),
      federationState: federationState.current,
      bundles,
      nowMs,
      verdictOn: (chain) => chains.recall(chain, nowMs),
      outOfContact: outOfContact(),
    });
  };
  /** At once, unless signatures must be verified first. */
  const decideInTime = (
    question: AccessQuestion,
    asker: WorkloadConnection,
  ): AccessDecision | Promise<AccessDecision> => {
    try {
      return decide(question, asker);
    } catch (error) {
      if (!(error instanceof UnverifiedCaller)) throw error;
      return verified(error.chain, question, asker);
    }
  };
  const verified = async (
    chain: UnverifiedCaller['chain'],
    question: AccessQuestion,
    asker: WorkloadConnection,
  ): Promise<AccessDecision> => {
    const verdict = await chains.judgeFor(`${asker.process.uid}`, chain, clock.now());
    return verdict === undefined ? tooManyWrong : decideInTime(question, asker);
  };
  const check: handleUnaryCall<CheckRequest, Uint8Array> = (call, answer) => {
    const asker = connections.get(call.getPeer());
    if (asker === undefined) {
      answer({ code: status.UNAVAILABLE, details: 'The connection is closed.' });
      return;
    }
    const question = questionOf(call.request);
    const send = (decision: AccessDecision): void => {
      decided(decision, question, asker);
      answer(null, decision.allowed ? allowed : denied);
    };
    const decision = decideInTime(question, asker);
    if (decision instanceof Promise) decision.then(send, answer);
    else send(decision);
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
