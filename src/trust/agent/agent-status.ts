// The status of a running agent, in a file that `hansa agent status` reads. It contains no secrets.

import { readFileSync } from 'node:fs';
import { timestamp } from '../../api/object.ts';
import type { LinkStatus } from '../../core/agent/agent-link.ts';
import { replaceFile } from '../../core/plane/data-files.ts';
import { readJsonFile } from './agent-folder.ts';

export interface AgentStatus {
  readonly pid: number;
  readonly version: string;
  readonly spiffeId: string;
  readonly server: string;
  readonly startedAt: string;
  readonly connected: boolean;
  /** Since when it is connected, or not. */
  readonly since: string;
  readonly lastContact?: string;
  readonly lastError?: string;
  readonly nextTry?: string;
  /** The expiry of the SVID of the agent itself. */
  readonly svidNotAfter: string;
  /** From when on ext_authz denies without the site; only while it is not connected. */
  readonly deniesAfter?: string;
  readonly entries: number;
  readonly workloads: number;
  readonly problems: readonly string[];
  readonly endpoints: Readonly<Record<string, string>>;
}

/** The fields that come from the link. */
export function linkFields(
  { connected, sinceMs, lastError, nextTryMs }: LinkStatus,
  lastContactMs: number | undefined,
): Pick<AgentStatus, 'connected' | 'since' | 'lastContact' | 'lastError' | 'nextTry'> {
  return {
    connected,
    since: timestamp(sinceMs),
    ...(lastContactMs === undefined ? {} : { lastContact: timestamp(lastContactMs) }),
    ...(lastError === undefined ? {} : { lastError }),
    ...(nextTryMs === undefined ? {} : { nextTry: timestamp(nextTryMs) }),
  };
}

/** Every user may read it. */
export function writeStatus(path: string, status: AgentStatus): void {
  replaceFile(path, `${JSON.stringify(status, null, 2)}\n`, 0o644);
}

/** Undefined where no agent has run in this folder. */
export function readStatus(path: string): AgentStatus | undefined {
  return readJsonFile(path) as AgentStatus | undefined;
}

/** Whether the process that wrote the status runs. */
export function isRunning({ pid }: Pick<AgentStatus, 'pid'>): boolean {
  try {
    // Another process may have the same number later.
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('agent\0run');
  } catch {
    return false;
  }
}
