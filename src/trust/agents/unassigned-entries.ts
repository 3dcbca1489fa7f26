// Finds WorkloadEntries that no agent has, because no Agent has such a name or such labels. Pure.

import type { Agent } from '../../api/kinds/agent.ts';
import type { WorkloadEntry } from '../workload/entries/matching-entries.ts';
import { AssignmentIndex } from './assignment.ts';

/** Their names, sorted. An entry for the machine of the site always has an agent. */
export function unassigned(
  agents: readonly Agent[],
  entries: readonly WorkloadEntry[],
): readonly string[] {
  const index = new AssignmentIndex();
  for (const { metadata, spec } of agents) {
    const { name, labels } = metadata;
    index.putAgent({ name, labels, entriesByName: spec?.entriesByName });
  }
  const limited = entries.filter(({ spec }) => spec.agents !== undefined);
  for (const entry of limited) index.putEntry(entry.metadata.name, entry);
  return limited
    .map(({ metadata }) => metadata.name)
    .filter((name) => index.agentsOf(name).length === 0)
    .toSorted();
}
