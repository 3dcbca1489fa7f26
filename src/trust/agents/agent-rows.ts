// Computes the rows of `hansa agent list` and `show`, and which agents need an operator. Pure.

import type { Agent } from '../../api/kinds/agent.ts';
import { siteAgentName } from '../../api/values/agent-name.ts';
import { humanDuration } from '../../api/values/duration.ts';
import { countStates, type StateCounts } from '../state-counts.ts';

/** An agent renews after half of its SVID's hour. With less than this left, renewal fails. */
const svidSoonMs = 20 * 60_000;

export interface AgentRow {
  readonly name: string;
  readonly state: string;
  /** How long it has been in this state. */
  readonly since: string;
  readonly entries: string;
  readonly workloads: string;
  readonly lastSeen: string;
  /** The remaining lifetime of its SVID. */
  readonly svid: string;
  readonly version: string;
  readonly host: string;
  readonly token: string;
  readonly labels: string;
  /** Why it is in this state, and what to do; empty if nothing is wrong. */
  readonly why: string;
}

const narrow = [
  ['AGENT', 'name'],
  ['STATE', 'state'],
  ['SINCE', 'since'],
  ['ENTRIES', 'entries'],
  ['WORKLOADS', 'workloads'],
  ['LAST SEEN', 'lastSeen'],
  ['SVID', 'svid'],
] as const;
const wide = [
  ['VERSION', 'version'],
  ['HOST', 'host'],
  ['TOKEN', 'token'],
  ['LABELS', 'labels'],
] as const;
const last = [['WHY', 'why']] as const;

/** With a row of headings. */
export function agentTable(rows: readonly AgentRow[], isWide: boolean): string[][] {
  const columns = [...narrow, ...(isWide ? wide : []), ...last];
  return [
    columns.map(([heading]) => heading),
    ...rows.map((row) => columns.map(([, field]) => row[field])),
  ];
}

export function agentRow(agent: Agent, nowMs: number): AgentRow {
  const { metadata, status = {} } = agent;
  const { state = 'unknown', since, lastSeenAt, svidExpiresAt } = status;
  return {
    name: metadata.name,
    state,
    since: since === undefined ? '' : ago(since, nowMs),
    entries: String(status.entries ?? 0),
    workloads: String(status.workloads ?? 0),
    lastSeen:
      // It is the process that answers.
      metadata.name === siteAgentName
        ? 'now'
        : lastSeenAt === undefined
          ? ''
          : `${ago(lastSeenAt, nowMs)} ago`,
    svid: svidExpiresAt === undefined ? '' : remaining(svidExpiresAt, nowMs),
    version: status.version ?? '',
    host: status.host ?? '',
    token: status.token ?? '',
    labels: Object.entries(metadata.labels ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(','),
    why: troubleOf(agent, nowMs) ?? (state === 'Connected' ? '' : (status.reason ?? '')),
  };
}

/** What is wrong with an agent, and what to do; undefined if nothing is. */
export function troubleOf({ status = {} }: Agent, nowMs: number): string | undefined {
  const { state, reason = '', svidExpiresAt, problems = [] } = status;
  if (state !== 'Connected' && state !== 'Joined' && state !== undefined) return reason;
  const left = svidExpiresAt === undefined ? undefined : Date.parse(svidExpiresAt) - nowMs;
  if (state === 'Connected' && left !== undefined && left < svidSoonMs) {
    return `Its SVID expires in ${humanDuration(Math.max(left, 0))}, and the agent has not renewed it. See the log of the agent.`;
  }
  return problems[0];
}

/** One line per agent in trouble, at most `max` of them. */
export function troubleLines(agents: readonly Agent[], nowMs: number, max: number): string[] {
  const odd = agents.filter((agent) => troubleOf(agent, nowMs) !== undefined);
  const lines = odd.slice(0, max).map((agent) => {
    const { name, state, since, why } = agentRow(agent, nowMs);
    return `agent ${name} is ${state}${since === '' ? '' : ` for ${since}`}: ${why}`;
  });
  const more = odd.length - lines.length;
  return more > 0 ? [...lines, `and ${more} more: hansa agent list`] : lines;
}

export function countAgents(agents: readonly Agent[]): StateCounts {
  return countStates(agents.map(({ status }) => (status?.state ?? 'unknown').toLowerCase()));
}

function ago(time: string, nowMs: number): string {
  // Never negative, even if the local clock is behind the clock of the site.
  return humanDuration(Math.max(nowMs - Date.parse(time), 0));
}

function remaining(time: string, nowMs: number): string {
  const left = Date.parse(time) - nowMs;
  return left <= 0 ? 'expired' : `for ${humanDuration(left)}`;
}
