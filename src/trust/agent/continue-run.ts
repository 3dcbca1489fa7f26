// The rest of `hansa agent run`, once the agent has joined. The process starts again with this module, so
// that an agent does not keep the command line and the code of all planes in memory.

import { hostname } from 'node:os';
import { MessageChannel } from 'node:worker_threads';
import { loadAgentParts } from '../../core/agent/agent-part.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { ContinuedCommand } from '../../core/plane/command-kit.ts';
import { agentFolderAt } from './agent-folder.ts';
import { type AgentFlags, agentSettings } from './agent-settings.ts';
import { runAgent } from './run-agent.ts';

export interface RunInput {
  /** Absolute. */
  readonly dataDir: string;
  readonly server: string | undefined;
  readonly flags: AgentFlags;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  /** The modules of `loadAgentParts`. */
  readonly parts: readonly string[];
}

export const continueCommand: ContinuedCommand = async ({ io, version, print }, input) => {
  const { dataDir, server, flags, logLevel, parts } = input as RunInput;
  const { clock, random, stdout, stderr, interruption, cwd } = io;
  const { settings, store } = agentSettings(agentFolderAt(dataDir).settingsFile, flags, cwd);
  // The agent keeps running when the reader of its output has closed the pipe.
  for (const stream of [stdout, stderr]) {
    stream.removeAllListeners('error').on('error', () => undefined);
  }
  // The timers of the clock do not keep the process alive between two attempts. This port does.
  const { port1: anchor } = new MessageChannel();
  anchor.on('message', () => undefined);
  try {
    await runAgent({
      ...settings,
      dataDir,
      server,
      version,
      host: hostname(),
      clock,
      random,
      log: createLog({
        clock,
        sink: stderr,
        level: logLevel,
        format: stderr.isTTY === true ? 'text' : 'json',
      }),
      metrics: new MetricsRegistry(),
      parts: await loadAgentParts(parts),
      interruption: interruption(),
      started: store,
      announce: print,
    });
  } finally {
    anchor.close();
  }
};
