// The details of one agent for `hansa agent show`, and what ends when the site forgets it. Pure.

import type { Agent } from '../../api/kinds/agent.ts';
import { agentRow } from './agent-rows.ts';

/** The number of entries that `show` names. `-o json` has all. */
const shownEntries = 20;

/** Rows of a label and a value. */
export function agentDetails(
  agent: Agent,
  entries: readonly string[],
  nowMs: number,
): readonly (readonly [string, string])[] {
  const { status = {} } = agent;
  const row = agentRow(agent, nowMs);
  const peer = vouchingDomain(status.provenBy);
  return [
    ['agent', row.name],
    ['state', row.since === '' ? row.state : `${row.state}, for ${row.since}`],
    ...optional('why', row.why),
    ...optional('host', row.host),
    ...optional('version', row.version),
    ...optional('last seen', row.lastSeen),
    ...optional(
      'SVID',
      status.svidExpiresAt && `valid until ${status.svidExpiresAt} (${row.svid})`,
    ),
    ['labels', row.labels === '' ? 'none' : row.labels],
    ['entries', entriesText(entries)],
    ['workloads', row.workloads],
    ...optional('joined', status.joinedAt),
    ...optional('token', row.token),
    ...optional('proven by', status.provenBy),
    ...optional('vouched by', peer),
    ...optional('replica', status.replica),
    ...(status.problems ?? [])
      .filter((problem) => problem !== row.why)
      .map((problem) => ['problem', problem] as const),
  ];
}

function optional(label: string, value: string | undefined): (readonly [string, string])[] {
  return value === undefined || value === '' ? [] : [[label, value]];
}

function entriesText(entries: readonly string[]): string {
  if (entries.length === 0) return 'none';
  const more = entries.length - shownEntries;
  const names = entries.slice(0, shownEntries).join(', ');
  return more > 0 ? `${entries.length}: ${names} and ${more} more` : `${entries.length}: ${names}`;
}

/** The trust domain whose SVID the agent joined with; undefined for a secret. */
function vouchingDomain(provenBy: string | undefined): string | undefined {
  return /^spiffe:\/\/([^/]+)\//.exec(provenBy ?? '')?.[1];
}

/** Lines before the question. */
export function forgetEffects({ metadata, status = {} }: Agent): readonly string[] {
  const { workloads = 0, token } = status;
  const { name } = metadata;
  return [
    `The site rejects the SVID of ${name} at once, and signs nothing more for it.`,
    workloads === 0
      ? 'No workload is connected to it.'
      : `${workloads} workload${workloads === 1 ? ' is' : 's are'} connected to it. The agent withdraws their SVIDs at once. A copy of an SVID stays valid until it expires.`,
    ...(token === undefined
      ? []
      : [`It can join again while a token admits it. It joined with the token ${token}.`]),
    `WorkloadEntries that name ${name} apply on the next machine of this name only if it joins with a token that you create afterwards: hansa join token create ${name} --agent-name ${name}`,
  ];
}
