// The names of agents that were forgotten. A WorkloadEntry that names an agent means the machine that had
// joined under that name when the entry was written, or the first one that joins. After the agent was
// forgotten, another machine may join under its name. It gets these entries only if a caller with the right
// to write WorkloadEntries consents: by a later token that names the agent, or by `spec.entriesByName` of
// the new Agent.

import type { JoinToken } from '../../api/kinds/join-token.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Expectation, Put, Store } from '../../core/store/store.ts';
import { formerAgentsCollection } from '../join/member-records.ts';

interface FormerAgent {
  /** The uid of the newest token that names the agent and was written after the agent was forgotten. */
  readonly token?: string;
}

const reader = recordReader<FormerAgent>(formerAgentsCollection);

/** Belongs to the commit that forgets the agent. An earlier consent ends. */
export function formerAgent(name: string): Put {
  return put(name, {});
}

/**
 * Belongs to the commit of a token. The guarded fields of the kind (api/kinds/join-token.ts) have ensured
 * that its writer has the right to write WorkloadEntries.
 */
export function consentOf(
  store: Pick<Store, 'get'>,
  { metadata: { uid }, spec }: Pick<JoinToken, 'metadata' | 'spec'>,
): readonly Put[] {
  const { agentName } = spec;
  if (agentName === undefined || reader.get(store, agentName) === undefined) return [];
  return [put(agentName, { token: uid })];
}

/** Whether a machine that joins with the token gets the entries that name it. The commit of the join must expect the rest. */
export function entriesByName(
  store: Pick<Store, 'get'>,
  name: string,
  { uid }: { readonly uid: string },
): { readonly isGiven: boolean; readonly expect: Expectation } {
  const former = reader.get(store, name);
  const at = store.get(formerAgentsCollection, name)?.revision ?? 'absent';
  return {
    isGiven: former === undefined || former.token === uid,
    expect: { collection: formerAgentsCollection, name, at },
  };
}

function put(name: string, former: FormerAgent): Put {
  const bytes = Buffer.from(JSON.stringify(former));
  return { collection: formerAgentsCollection, name, encode: () => bytes };
}
