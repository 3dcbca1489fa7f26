// Runs `hansa agent run` as a user does, in a process of its own. Tests and benchmarks use it.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { launcher, type Program, startProgram } from './daemon.ts';

export interface AgentProcess extends Program {
  readonly dataDir: string;
  /** Of its Workload API. */
  readonly socket: string;
}

/** Where and how an agent joins. */
export interface Joining {
  readonly url: string;
  readonly trustDomain: string;
  readonly caFile: string;
  readonly token: string;
  readonly name: string;
  readonly secret: string;
}

export interface AgentOptions {
  readonly flags?: readonly string[];
  /** Words before the program, such as those that start it in a network namespace. */
  readonly within?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where the secret is written, for a data folder that only the agent sees. */
  readonly secretFile?: string;
}

/** The flags of a first start. The secret is written beside the data folder unless told. */
export function joinFlags(
  dataDir: string,
  joining: Joining,
  secretFile = `${dataDir}.secret`,
): readonly string[] {
  mkdirSync(dirname(secretFile), { recursive: true });
  writeFileSync(secretFile, joining.secret, { mode: 0o600 });
  return [
    `--server=${joining.url}`,
    `--trust-domain=${joining.trustDomain}`,
    `--bundle=${joining.caFile}`,
    `--token=${joining.token}`,
    `--name=${joining.name}`,
    `--secret-file=${secretFile}`,
  ];
}

/** Does not wait until it is ready. Without `joining`, the data folder must hold a joined agent. */
export function spawnAgent(
  dataDir: string,
  joining?: Joining,
  { flags = [], within = [], env = {}, secretFile }: AgentOptions = {},
): AgentProcess {
  const [command = launcher, ...args] = [
    ...within,
    launcher,
    'agent',
    'run',
    `--data-dir=${dataDir}`,
    ...(joining === undefined ? [] : joinFlags(dataDir, joining, secretFile)),
    ...flags,
  ];
  const program = startProgram(command, args, env);
  return { ...program, dataDir, socket: join(dataDir, 'workload.sock') };
}

/** Resolves when the agent says that it serves its socket. */
export async function startAgent(
  dataDir: string,
  joining?: Joining,
  options?: AgentOptions,
): Promise<AgentProcess> {
  const agent = spawnAgent(dataDir, joining, options);
  await agent.greeted;
  return agent;
}
