// Tells operators to which agents an entry is assigned, and why it reaches none. Pure.

import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';
import { siteAgentName } from '../../api/values/agent-name.ts';
import type { AssignedEntry } from './assignment.ts';

/** The maximum number of names in a message; the rest is counted. */
const mostTold = 5;

/**
 * `agents` are the agents of the entry that exist, sorted. `newcomers` are those that it names and does not
 * apply on, because another machine had the name before (former-agents.ts).
 */
export function explainAssignment(
  { spec }: AssignedEntry,
  agents: readonly string[],
  newcomers: readonly string[] = [],
): Omit<ConditionUpdate, 'observedGeneration'> {
  const type = 'Assigned';
  const { names, selector } = spec.agents ?? { names: [siteAgentName] };
  const absent = (names ?? []).filter(
    (name) => !agents.includes(name) && !newcomers.includes(name),
  );
  const unconfirmed =
    newcomers.length === 0
      ? ''
      : ` Another machine was ${told(newcomers)} before, and was forgotten. The entry applies on the new one when spec.entriesByName of its Agent is true.`;
  if (agents.length > 0) {
    const missing = absent.length === 0 ? '' : ` No machine has joined as ${told(absent)}.`;
    const message = `The entry applies on ${told(agents)}.${missing}${unconfirmed}`;
    return { type, status: 'True', reason: 'Assigned', message };
  }
  if (newcomers.length > 0) {
    const message = `The entry applies nowhere.${unconfirmed}`;
    return { type, status: 'False', reason: 'NewMachine', message };
  }
  if (selector === undefined) {
    const message = `The entry applies nowhere: no machine has joined as ${told(absent)}. Join a machine under such a name, or correct spec.agents.names.`;
    return { type, status: 'False', reason: 'NoSuchAgent', message };
  }
  const labels = Object.entries(selector.matchLabels).map(([key, value]) => `${key}=${value}`);
  const message = `The entry applies nowhere: no Agent has the labels ${told(labels)}. Set them with kubectl label agent NAME ${labels.slice(0, mostTold).join(' ')}, or correct spec.agents.selector.`;
  return { type, status: 'False', reason: 'NoMatch', message };
}

function told(names: readonly string[]): string {
  const more = names.length > mostTold ? ` and ${names.length - mostTold} more` : '';
  return `${names.slice(0, mostTold).join(', ')}${more}`;
}
