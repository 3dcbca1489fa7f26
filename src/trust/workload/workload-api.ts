// The service SpiffeWorkloadAPI: its X.509 profile, and how streams of either profile are served. The
// calls of the JWT profile are in jwt-profile.ts.

import {
  type ServerWritableStream,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import {
  JWTBundlesRequestSchema,
  JWTSVIDRequestSchema,
  ValidateJWTSVIDRequestSchema,
  X509BundlesRequestSchema,
  X509SVIDRequestSchema,
} from '../../../proto/gen/workload_pb.ts';
import type { Delivery, Subscriber } from './delivery.ts';
import { grpcMethod } from './socket/grpc-method.ts';
import { grpcStatus } from './socket/grpc-status.ts';
import { LatestWriter } from './socket/latest-writer.ts';
import { anotherProcess, connectionGone, noIdentity, noSvidNow } from './socket/stream-refusals.ts';
import type { WorkloadConnection, WorkloadConnections } from './socket/workload-connections.ts';
import { type WorkloadState, x509Of } from './workload-state.ts';

export interface WorkloadApiOptions {
  readonly delivery: Delivery;
  readonly connections: WorkloadConnections;
  readonly denied: (connection: WorkloadConnection, what: string) => void;
}

export type StreamCall = ServerWritableStream<unknown, Uint8Array>;

/** The part of a state that one stream type sends, already encoded, and its version. */
export interface StateView {
  /** For the operator's log. */
  readonly what: string;
  readonly needsSvids: boolean;
  readonly prepare: NonNullable<Subscriber['prepare']>;
  versionOf(state: WorkloadState): string;
  messageOf(state: WorkloadState): Uint8Array;
}

const svids: StateView = {
  what: 'svids',
  needsSvids: true,
  prepare: x509Of,
  versionOf: (state) => state.svidVersion,
  messageOf: (state) => state.svidResponse,
};

const bundles: StateView = {
  what: 'bundles',
  needsSvids: false,
  prepare: x509Of,
  versionOf: (state) => state.bundlesVersion,
  messageOf: (state) => state.bundlesResponse,
};

const once = { requests: false, responses: false };
const states = { requests: false, responses: true };
const path = '/SpiffeWorkloadAPI/';

export const workloadApiDefinition: ServiceDefinition = {
  FetchX509SVID: grpcMethod(`${path}FetchX509SVID`, X509SVIDRequestSchema, states),
  FetchX509Bundles: grpcMethod(`${path}FetchX509Bundles`, X509BundlesRequestSchema, states),
  FetchJWTSVID: grpcMethod(`${path}FetchJWTSVID`, JWTSVIDRequestSchema, once),
  FetchJWTBundles: grpcMethod(`${path}FetchJWTBundles`, JWTBundlesRequestSchema, states),
  ValidateJWTSVID: grpcMethod(`${path}ValidateJWTSVID`, ValidateJWTSVIDRequestSchema, once),
};

export function workloadApi(options: WorkloadApiOptions): UntypedServiceImplementation {
  return {
    FetchX509SVID: (call: StreamCall) => serveStates(options, call, svids),
    FetchX509Bundles: (call: StreamCall) => serveStates(options, call, bundles),
  };
}

/** Every state from now on, until either side ends the stream. */
export function serveStates(options: WorkloadApiOptions, call: StreamCall, view: StateView): void {
  const { delivery, connections, denied } = options;
  const connection = connections.get(call.getPeer());
  let over = false;
  let unsubscribe = (): void => undefined;
  const end = (error?: unknown): void => {
    if (over) return;
    over = true;
    unsubscribe();
    if (error !== undefined) call.emit('error', grpcStatus(error));
  };
  if (connection === undefined) {
    end(connectionGone());
    return;
  }
  const writer = new LatestWriter({ write: (message, sent) => call.write(message, sent) });
  // gRPC emits this event at the end of every call, whichever side ended it.
  call.on('cancelled', () => end());
  unsubscribe = delivery.subscribe(connection.process, {
    needsSvids: view.needsSvids,
    prepare: view.prepare,
    versionOf: (state) => view.versionOf(state),
    send: (state) => {
      if (connection.isSame()) writer.send(view.messageOf(state));
      else end(anotherProcess());
    },
    denied: () => {
      denied(connection, view.what);
      end(noIdentity(connection.process));
    },
    failed: () => end(noSvidNow()),
  });
}
