// Runs `hansa agent run` as a user does, in a process of its own. Tests and benchmarks use it.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launcher, type Program, startProgram, temporaryFolder } from './daemon.ts';

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
}

/** The flags of a first start. */
export function joinFlags(joining: Joining): readonly string[] {
  const secretFile = join(temporaryFolder(), 'secret');
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
  { flags = [], within = [], env = {} }: AgentOptions = {},
): AgentProcess {
  const [command = launcher, ...args] = [
    ...within,
    launcher,
    'agent',
    'run',
    `--data-dir=${dataDir}`,
    ...(joining === undefined ? [] : joinFlags(joining)),
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
