// The flags of `hansa agent run` that later starts use again, in a file of the data folder. It contains
// no secrets.

import { resolve } from 'node:path';
import { type ListenAddress, parseListenAddress } from '../../core/config/config-values.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { replaceFile } from '../../core/plane/data-files.ts';
import { readJsonFile } from './agent-folder.ts';

export interface AgentFlags {
  readonly keyFile?: string;
  /** HOST:PORT or off. */
  readonly metrics?: string;
}

export interface AgentSettings {
  /** Absolute; undefined: keys of workloads stay in memory. */
  readonly keyFile: string | undefined;
  readonly metricsAddress: ListenAddress | undefined;
}

/** A flag replaces the stored value. */
export function agentSettings(
  file: string,
  flags: AgentFlags,
  cwd: string,
): { readonly settings: AgentSettings; readonly store: () => void } {
  const stored = readJsonFile(file) ?? {};
  const text = (name: keyof AgentFlags): string | undefined =>
    flags[name] ?? (typeof stored[name] === 'string' ? stored[name] : undefined);
  const given = text('keyFile');
  const keyFile = given === undefined || given === 'off' ? undefined : resolve(cwd, given);
  const metrics = text('metrics') ?? 'off';
  return {
    settings: { keyFile, metricsAddress: metrics === 'off' ? undefined : addressOf(metrics) },
    store: () => {
      const next = { ...(keyFile === undefined ? {} : { keyFile }), metrics };
      replaceFile(file, `${JSON.stringify(next, null, 2)}\n`, 0o644);
    },
  };
}

function addressOf(text: string): ListenAddress {
  try {
    return parseListenAddress(text);
  } catch (error) {
    throw usageError(
      `--metrics is ${JSON.stringify(text)}, but must be off or ${(error as Error).message}.`,
    );
  }
}
