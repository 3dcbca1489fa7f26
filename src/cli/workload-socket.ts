// Which workload socket a command asks: that of --socket, of --data-dir, or of SPIFFE_ENDPOINT_SOCKET.

import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { type Cli, globalOptions } from './cli.ts';
import { dataDirOf } from './connection.ts';
import { usageError } from '../core/command/usage-error.ts';

export function socketOf(cli: Cli, command: Command, flag: string | undefined): string {
  const { io } = cli;
  if (flag !== undefined) return resolve(io.cwd, flag);
  const options = globalOptions(command);
  const named = io.env['SPIFFE_ENDPOINT_SOCKET'] ?? '';
  if (options.dataDir !== undefined || named === '') {
    return join(dataDirOf(options, io), 'workload.sock');
  }
  // SPIFFE Workload Endpoint section 4: a URI, here with the scheme unix.
  const path = /^unix:(?:\/\/)?(\/[^?#]*)$/.exec(named)?.[1];
  if (path === undefined) {
    throw usageError(
      `SPIFFE_ENDPOINT_SOCKET is ${JSON.stringify(named.slice(0, 120))}: accepted is unix:///PATH.`,
    );
  }
  return path;
}
