// Checks every call on the workload socket before its request is read: the process still runs, its user
// is within the limits, the security header is present, and the request arrives in time.

import {
  type Metadata,
  ResponderBuilder,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from '@grpc/grpc-js';
import type { Clock, Timer } from '../../../core/clock/clock.ts';
import type { GrpcStatus } from './grpc-status.ts';
import type { WorkloadConnections } from './workload-connections.ts';
import type { WorkloadProcess } from '../entries/workload-process.ts';

export type GuardRefusal = 'gone' | 'header' | 'limit' | 'late' | 'flood';

/** What reports say of a caller. */
export type RefusedCaller = Pick<WorkloadProcess, 'uid' | 'gid' | 'description'>;

export interface StreamGuardOptions {
  readonly connections: WorkloadConnections;
  readonly clock: Clock;
  readonly requestMs: number;
  /** Whether some entry selects by the SHA-256 of the program: then it is known before the call begins. */
  readonly needsHash: () => boolean;
  readonly refused: (why: GuardRefusal, caller: RefusedCaller | undefined) => void;
}

/** SPIFFE Workload Endpoint section 3: so that a page in a browser, say, cannot be made to ask. */
const securityHeader = 'workload.spiffe.io';
const workloadApi = '/SpiffeWorkloadAPI/';

export function streamGuard(options: StreamGuardOptions): ServerInterceptor {
  const { connections, clock, requestMs } = options;
  return (method, call) => {
    const name = call.getPeer();
    const connection = connections.get(name);
    const refuse = (why: GuardRefusal, answer: GrpcStatus): void => {
      options.refused(why, connection?.process);
      call.sendStatus(answer);
    };
    let release: (() => void) | undefined;
    let late: Timer | undefined;
    let over = false;
    const admit = (metadata: Metadata, next: (metadata: Metadata) => void): void => {
      if (connection === undefined || !connection.isSame()) {
        refuse('gone', {
          code: status.UNAUTHENTICATED,
          details: 'The process that opened this connection has ended, or runs another program.',
        });
        return;
      }
      if (method.path.startsWith(workloadApi) && !hasSecurityHeader(metadata)) {
        refuse('header', {
          code: status.INVALID_ARGUMENT,
          details: `The security header is missing: send ${securityHeader}: true.`,
        });
        return;
      }
      release = connections.addStream(name);
      if (release === undefined) {
        refuse('limit', {
          code: status.RESOURCE_EXHAUSTED,
          details: 'Too many streams are open. Close some of them, or try again later.',
        });
        return;
      }
      if (!options.needsHash()) {
        begin(metadata, next);
        return;
      }
      void hashThenBegin(connection.process, metadata, next);
    };
    const hashThenBegin = async (
      process: WorkloadProcess,
      metadata: Metadata,
      next: (metadata: Metadata) => void,
    ): Promise<void> => {
      await process.hashed();
      if (!over) begin(metadata, next);
    };
    const begin = (metadata: Metadata, next: (metadata: Metadata) => void): void => {
      late = clock.timer(requestMs, () => {
        refuse('late', {
          code: status.DEADLINE_EXCEEDED,
          details: `The request was not complete within ${requestMs} ms.`,
        });
      });
      next(metadata);
    };
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata(admit)
      .withOnReceiveMessage((message, next) => {
        // Where requests are a stream, the first of them is enough: there may never be another.
        if (method.requestStream) late?.cancel();
        next(message);
      })
      .withOnReceiveHalfClose((next) => {
        late?.cancel();
        next();
      })
      // Comes at the end of every call, however that ended.
      .withOnCancel(() => {
        over = true;
        late?.cancel();
        release?.();
      })
      .build();
    return new ServerInterceptingCall(
      call,
      new ResponderBuilder().withStart((next) => next(listener)).build(),
    );
  };
}

function hasSecurityHeader(metadata: Metadata): boolean {
  const values = metadata.get(securityHeader);
  return values.length === 1 && values[0] === 'true';
}
