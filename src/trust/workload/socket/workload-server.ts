// The gRPC server on the workload socket. It accepts a connection, attests the process, and then
// passes the connection to gRPC with a unique name, by which each call finds its process.

import { Server } from '@grpc/grpc-js';
import type { Socket } from 'node:net';
import type { Clock } from '../../../core/clock/clock.ts';
import type { Log } from '../../../core/log/log.ts';
import {
  secretService,
  secretServiceDefinition,
  type SecretServiceOptions,
} from '../../sds/secret-service.ts';
import { AccountFile } from '../../apply/account-files.ts';
import { ExecutableHashes } from '../../apply/executable-hash.ts';
import type { PeerProcess } from '../../apply/peer-credentials.ts';
import { openWorkloadSocket } from '../../apply/workload-socket.ts';
import {
  type AuthorizationApiOptions,
  authorizationApi,
  authorizationApiDefinition,
} from '../../authorization/authorization-api.ts';
import { grpcFront } from './grpc-front.ts';
import { healthDefinition, healthService } from './health-service.ts';
import { jwtProfile, type JwtProfileOptions } from '../jwt-profile.ts';
import { OccasionalLog } from './occasional-log.ts';
import { reflection, reflectionDefinitions, servedServices } from './reflection.ts';
import { streamGuard, type StreamGuardOptions } from './stream-guard.ts';
import { workloadApi, workloadApiDefinition } from '../workload-api.ts';
import { TurnTakingSocket } from './turn-taking-socket.ts';
import type { Entered, WorkloadConnections, WorkloadLimits } from './workload-connections.ts';
import { workloadProcess } from '../entries/workload-process.ts';

export interface WorkloadServerOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: WorkloadLimits;
  readonly connections: WorkloadConnections;
  readonly refused: StreamGuardOptions['refused'];
  readonly workloads: JwtProfileOptions;
  readonly authorization: AuthorizationApiOptions;
  readonly secrets: SecretServiceOptions;
  /** Whether workloads get what they ask for, as far as the site knows. */
  readonly isServing: () => boolean;
}

export interface WorkloadServer {
  /** Ends every stream with UNAVAILABLE: clients come back by themselves. */
  stop(): void;
}

/** Above any question of an Envoy with a certificate in it; the Workload API's own are empty. */
const maxRequestBytes = 256 * 1024;
/** Megabytes that one connection may make us hold; more streams are refused above it. */
const maxSessionMegabytes = 10;
/** A process that stopped but did not close is asked for this often. */
const keepaliveMs = 60_000;

export async function startWorkloadServer(options: WorkloadServerOptions): Promise<WorkloadServer> {
  const { path, clock, log, limits, connections, refused } = options;
  const hashes = new ExecutableHashes(clock);
  const users = new AccountFile('/etc/passwd', clock);
  const groups = new AccountFile('/etc/group', clock);
  const server = new Server({
    'grpc.max_concurrent_streams': limits.streamsPerConnection,
    'grpc.max_receive_message_length': maxRequestBytes,
    'grpc-node.max_session_memory': maxSessionMegabytes,
    'grpc.keepalive_time_ms': keepaliveMs,
    'grpc.enable_channelz': 0,
    interceptors: [
      streamGuard({
        connections,
        clock,
        requestMs: limits.requestMs,
        needsHash: () => options.workloads.delivery.needsHash,
        refused,
      }),
    ],
  });
  server.addService(workloadApiDefinition, {
    ...workloadApi(options.workloads),
    ...jwtProfile(options.workloads),
  });
  server.addService(authorizationApiDefinition, authorizationApi(options.authorization));
  server.addService(secretServiceDefinition, secretService(options.secrets));
  server.addService(healthDefinition, healthService(servedServices(), options.isServing));
  for (const definition of reflectionDefinitions) server.addService(definition, reflection);
  // A process that connects and exits at once can cause any number of these messages.
  const unknown = new OccasionalLog(log, clock, 'rejected a connection to the workload socket');
  const inject = grpcFront(server, { refused: (why, { process }) => refused(why, process) });
  const gone = (error: unknown): void => {
    refused('gone', undefined);
    unknown.write({ error });
  };
  const serve = (connected: Socket, entered: Entered, peer: PeerProcess): void => {
    const process = workloadProcess(peer, { hashes, users, groups });
    const connection = entered.attested(peer, process);
    const socket = new TurnTakingSocket(connected, {
      turn: (task) => entered.turn(task),
      hold: (bytes) => connection.hold(bytes),
      flooded: () => refused('flood', process),
    });
    inject(socket, connection);
  };
  const socket = await openWorkloadSocket({
    path,
    maxConnections: limits.connections,
    connected: (connected, user, attest) => {
      // Without a listener, a connection that breaks before gRPC has it would end the process.
      connected.on('error', () => undefined);
      const entered = connections.enter(connected, user.uid);
      if (entered === undefined) {
        refused('limit', { ...user, description: `uid ${user.uid}, gid ${user.gid}` });
        return;
      }
      entered.turn(() => {
        if (connected.destroyed) return;
        try {
          serve(connected, entered, attest());
        } catch (error) {
          connected.destroy();
          gone(error);
        }
      });
    },
    unknown: gone,
  });
  return {
    stop: () => {
      socket.close();
      server.forceShutdown();
      connections.destroy();
      hashes.stop();
    },
  };
}
