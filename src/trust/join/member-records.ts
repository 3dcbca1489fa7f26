// The records that belong to one member. When the site forgets the member, one commit deletes all of
// them.

import { agentKind } from '../../api/kinds/agent.ts';

/** One per member: agent/NAME, or bot/NAME/ID. */
export const membersCollection = 'trust.members';
/** Refusals of older SVIDs, by the name of the member's record. */
export const refusalsCollection = 'trust.member-refusals';
/** The sessions of agents, by name. */
export const sessionsCollection = 'trust.agent-sessions';
/** What agents held when they were connected last, by name. */
export const holdingsCollection = 'trust.agent-holdings';

/** Names of agents that were forgotten (agents/former-agents.ts). */
export const formerAgentsCollection = 'trust.former-agents';

export interface RecordName {
  readonly collection: string;
  readonly name: string;
}

/** The name of the agent of this record; undefined for a bot. */
export function agentOf(instance: string): string | undefined {
  return instance.startsWith('agent/') ? instance.slice('agent/'.length) : undefined;
}

/** All records of a member. Some may not exist. */
export function recordsOf(instance: string): readonly RecordName[] {
  const agent = agentOf(instance);
  return [
    { collection: membersCollection, name: instance },
    { collection: refusalsCollection, name: instance },
    ...(agent === undefined
      ? []
      : [
          { collection: agentKind.plural, name: agent },
          { collection: sessionsCollection, name: agent },
          { collection: holdingsCollection, name: agent },
        ]),
  ];
}
