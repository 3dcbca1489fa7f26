// Finds the workload socket for a command: from --socket, --data-dir or SPIFFE_ENDPOINT_SOCKET.

import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit } from '../../core/plane/command-kit.ts';

export function socketOf(kit: CommandKit, command: Command, flag: string | undefined): string {
  const { io } = kit;
  if (flag !== undefined) return resolve(io.cwd, flag);
  const dataDir = kit.dataDir(command);
  const named = io.env['SPIFFE_ENDPOINT_SOCKET'] ?? '';
  if (dataDir.byFlag || named === '') return join(dataDir.path(), 'workload.sock');
  // SPIFFE Workload Endpoint section 4: a URI, here with the scheme unix.
  const path = /^unix:(?:\/\/)?(\/[^?#]*)$/.exec(named)?.[1];
  if (path === undefined) {
    throw usageError(
      `SPIFFE_ENDPOINT_SOCKET is ${JSON.stringify(named.slice(0, 120))}, but must have the form unix:///PATH.`,
    );
  }
  return path;
}
