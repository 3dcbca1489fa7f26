// The check of `hansa doctor` for agents: those that need an operator, and entries that no agent has. Only
// an agent in conflict is a problem: it may be in other hands. The site is healthy without the others.

import { type Agent, agentKind } from '../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { printable } from '../../core/command/columns.ts';
import { type Finding, ok, problem, type SiteCheck, warning } from '../../core/plane/doctor.ts';
import { countAgents, troubleOf } from '../agents/agent-rows.ts';
import { unassigned } from '../agents/unassigned-entries.ts';
import { countsText } from '../state-counts.ts';
import type { WorkloadEntry } from '../workload/entries/matching-entries.ts';

const check = 'agents';
/** More would hide the other findings; `hansa agent list` has them all. */
const maxTold = 5;

export const agentsCheck: SiteCheck = {
  name: check,
  follows: 'federations',
  run: async ({ client, clock, running }) => {
    if (!running) return [];
    const [agents, entries] = await Promise.all([
      client.list(agentKind),
      client.list(workloadEntryKind),
    ]);
    return judgeAgents(
      agents.items as unknown as Agent[],
      entries.items as unknown as WorkloadEntry[],
      clock.now(),
    );
  },
};

export function judgeAgents(
  agents: readonly Agent[],
  entries: readonly WorkloadEntry[],
  nowMs: number,
): Finding[] {
  const troubled = agents
    .map((agent) => ({ agent, trouble: troubleOf(agent, nowMs) }))
    .filter(({ trouble }) => trouble !== undefined)
    .toSorted((a, b) => rank(a.agent) - rank(b.agent));
  const told = troubled.slice(0, maxTold).map(({ agent, trouble }) => {
    const { state = 'unknown' } = agent.status ?? {};
    const text = `${agent.metadata.name} is ${state}`;
    const level = state === 'Conflicted' ? problem : warning;
    return level(check, printable(text), printable(trouble ?? ''));
  });
  const more = troubled.length - told.length;
  return [
    ...(troubled.length === 0 ? [ok(check, countsText(countAgents(agents)))] : told),
    ...(more > 0
      ? [warning(check, `and ${more} more`, 'hansa agent list lists all of them.')]
      : []),
    ...lostEntries(agents, entries),
  ];
}

function lostEntries(agents: readonly Agent[], entries: readonly WorkloadEntry[]): Finding[] {
  const lost = unassigned(agents, entries);
  if (lost.length === 0) return [];
  const names = lost.slice(0, maxTold).join(', ');
  const more = lost.length > maxTold ? ` and ${lost.length - maxTold} more` : '';
  return [
    warning(
      check,
      printable(
        `no agent has the ${lost.length === 1 ? 'WorkloadEntry' : 'WorkloadEntries'} ${names}${more}`,
      ),
      'Compare names and labels in spec.agents with: hansa agent list -o wide',
    ),
  ];
}

function rank({ status }: Agent): number {
  return status?.state === 'Conflicted' ? 0 : status?.state === 'Disconnected' ? 2 : 1;
}
