// The Unix socket for workloads. Every process on this machine may connect, and the kernel identifies
// each one.

import { chmodSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { HansaError } from '../../core/errors/error.ts';
import { descriptorOf } from '../../core/plane/socket-option.ts';
import { removeStaleSocket } from '../../core/plane/stale-socket.ts';
import { type PeerProcess, type PeerUser, peerProcess, peerUser } from './peer-credentials.ts';

/**
 * After a restart all workloads of the machine come at once, and one that finds the queue full is
 * turned away (EAGAIN). The kernel's own bound is as much (net.core.somaxconn).
 */
const backlog = 4096;

export interface WorkloadSocketOptions {
  readonly path: string;
  /** At once, of all users together; the system refuses more. */
  readonly maxConnections: number;
  /**
   * A connection whose user is known. The callee attests the process when it has time for this user, which
   * takes half a millisecond, and closes what `attest` returns. `attest` throws if the process cannot be told.
   */
  readonly connected: (socket: Socket, user: PeerUser, attest: () => PeerProcess) => void;
  /** A connection whose user the kernel does not report. It is already closed. */
  readonly unknown: (error: unknown) => void;
}

export interface WorkloadSocket {
  /** Takes no more connections, and removes the file. Those that are open are not touched. */
  close(): void;
}

export async function openWorkloadSocket(options: WorkloadSocketOptions): Promise<WorkloadSocket> {
  const { path, maxConnections, connected, unknown } = options;
  await removeStaleSocket(path);
  // The callee begins to read, in chunks that it counts.
  const server = createServer({ pauseOnConnect: true, highWaterMark: 1 }, (socket) => {
    let user: PeerUser;
    try {
      user = peerUser(openDescriptorOf(socket));
    } catch (error) {
      socket.destroy();
      unknown(error);
      return;
    }
    connected(socket, user, () => peerProcess(openDescriptorOf(socket)));
  });
  server.maxConnections = maxConnections;
  await listen(server, path);
  // Connecting needs the right to write; the folder above lets everybody pass.
  chmodSync(path, 0o666);
  return { close: () => server.close() };
}

function openDescriptorOf(socket: Socket): number {
  const fd = descriptorOf(socket);
  if (fd !== undefined) return fd;
  throw new HansaError(
    'HANSA_UNAUTHENTICATED',
    'Cannot attest the workload: the connection is already closed.',
  );
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    // For good: a connection that cannot be taken later (no descriptors left) must not end the daemon.
    server.on('error', (cause) =>
      reject(
        new HansaError('HANSA_CONFIG_INVALID', `Cannot listen on ${path}: ${cause.message}.`, {
          cause,
        }),
      ),
    );
    server.listen({ path, backlog }, () => resolve());
  });
}
