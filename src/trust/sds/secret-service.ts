// The gRPC service envoy.service.secret.v3.SecretDiscoveryService on the workload socket. The site
// attests an Envoy like any workload, and sends it the same SVIDs and bundles as Envoy secrets.
//
// This folder contains the names and content of secrets (workload-secrets.ts), the stream protocol
// (secret-stream.ts) and this service. ../workload decides what a workload gets, and when.

import type {
  handleUnaryCall,
  ServerDuplexStream,
  ServiceDefinition,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import {
  type DeltaDiscoveryRequest,
  DeltaDiscoveryRequestSchema,
  type DiscoveryRequest,
  DiscoveryRequestSchema,
} from '../../../proto/gen/sds_pb.ts';
import type { Delivery } from '../workload/delivery.ts';
import { grpcMethod } from '../workload/socket/grpc-method.ts';
import { grpcStatus } from '../workload/socket/grpc-status.ts';
import {
  anotherProcess,
  connectionGone,
  noIdentity,
  noSvidNow,
} from '../workload/socket/stream-refusals.ts';
import type {
  WorkloadConnection,
  WorkloadConnections,
} from '../workload/socket/workload-connections.ts';
import { Delta, fetched, type SecretStream, StateOfTheWorld } from './secret-stream.ts';
import { secretsOf, type WorkloadSecrets } from './workload-secrets.ts';

export interface SecretServiceOptions {
  readonly delivery: Pick<Delivery, 'subscribe'>;
  readonly connections: Pick<WorkloadConnections, 'get'>;
  readonly denied: (connection: WorkloadConnection, what: string) => void;
  /** A message went out. */
  readonly sent: () => void;
  /** An Envoy could not use what it was sent. */
  readonly rejected: (connection: WorkloadConnection, why: string) => void;
  /** An Envoy asks for names that stand for nothing it may have. */
  readonly missing: (connection: WorkloadConnection, names: readonly string[]) => void;
}

const service = '/envoy.service.secret.v3.SecretDiscoveryService/';

const streamed = { requests: true, responses: true };

export const secretServiceDefinition: ServiceDefinition = {
  StreamSecrets: grpcMethod(`${service}StreamSecrets`, DiscoveryRequestSchema, streamed),
  DeltaSecrets: grpcMethod(`${service}DeltaSecrets`, DeltaDiscoveryRequestSchema, streamed),
  FetchSecrets: grpcMethod(`${service}FetchSecrets`, DiscoveryRequestSchema),
};

export function secretService(options: SecretServiceOptions): UntypedServiceImplementation {
  return {
    StreamSecrets: (call: Call<DiscoveryRequest>) => serve(options, call, new StateOfTheWorld()),
    DeltaSecrets: (call: Call<DeltaDiscoveryRequest>) => serve(options, call, new Delta()),
    FetchSecrets: ((call, answer) => {
      fetchOnce(options, call.getPeer(), call.request, (error, response) =>
        error === undefined ? answer(null, response) : answer(grpcStatus(error)),
      );
    }) satisfies handleUnaryCall<DiscoveryRequest, Uint8Array>,
  };
}

type Call<Request> = ServerDuplexStream<Request, Uint8Array>;

function serve<Request>(
  options: SecretServiceOptions,
  call: Call<Request>,
  stream: SecretStream<Request>,
): void {
  const connection = options.connections.get(call.getPeer());
  let over = false;
  let unsubscribe: (() => void) | undefined;
  const end = (error?: unknown): void => {
    if (over) return;
    over = true;
    unsubscribe?.();
    if (error !== undefined) call.emit('error', grpcStatus(error));
  };
  if (connection === undefined) {
    end(connectionGone());
    return;
  }
  let writing = false;
  const write = (): void => {
    if (over || writing) return;
    const message = stream.next();
    if (message === undefined) return;
    if (!connection.isSame()) {
      end(anotherProcess());
      return;
    }
    writing = true;
    options.sent();
    call.write(message, () => {
      writing = false;
      write();
    });
  };
  let told = '';
  const tellMissing = (): void => {
    const { missing } = stream;
    const names = missing.join('\n');
    if (names === told) return;
    told = names;
    if (missing.length > 0) options.missing(connection, missing);
  };
  const subscribe = (): (() => void) =>
    options.delivery.subscribe(connection.process, {
      needsSvids: true,
      versionOf: (state) => secretsOf(state).version,
      send: (state) => {
        stream.update(secretsOf(state));
        write();
        tellMissing();
      },
      denied: () => {
        options.denied(connection, 'secrets');
        end(noIdentity(connection.process));
      },
      failed: () => end(noSvidNow()),
    });
  call.on('data', (request: Request) => {
    if (over) return;
    try {
      const rejected = stream.request(request);
      if (rejected !== undefined) options.rejected(connection, rejected);
    } catch (error) {
      end(error);
      return;
    }
    if (unsubscribe === undefined) unsubscribe = subscribe();
    else {
      write();
      tellMissing();
    }
  });
  call.on('error', () => end());
  // The other side asks for nothing more, and reads on no longer.
  call.on('end', () => {
    end();
    call.end();
  });
  // gRPC emits this event at the end of every call, whichever side ended it.
  call.on('cancelled', () => end());
}

function fetchOnce(
  options: SecretServiceOptions,
  name: string,
  request: DiscoveryRequest,
  answer: (error: unknown, response?: Uint8Array) => void,
): void {
  const connection = options.connections.get(name);
  if (connection === undefined) {
    answer(connectionGone());
    return;
  }
  const respond = (secrets: WorkloadSecrets): void => {
    if (!connection.isSame()) {
      answer(anotherProcess());
      return;
    }
    let response: Uint8Array;
    try {
      response = fetched(request, secrets);
    } catch (error) {
      answer(error);
      return;
    }
    options.sent();
    const missing = request.resourceNames.filter((one) => secrets.get(one) === undefined);
    if (missing.length > 0) options.missing(connection, missing);
    answer(undefined, response);
  };
  let over = false;
  let unsubscribe = (): void => undefined;
  const once = (tell: () => void): void => {
    if (over) return;
    over = true;
    unsubscribe();
    tell();
  };
  unsubscribe = options.delivery.subscribe(connection.process, {
    needsSvids: true,
    versionOf: (state) => secretsOf(state).version,
    send: (state) => once(() => respond(secretsOf(state))),
    denied: () =>
      once(() => {
        options.denied(connection, 'secrets');
        answer(noIdentity(connection.process));
      }),
    failed: () => once(() => answer(noSvidNow())),
  });
}
