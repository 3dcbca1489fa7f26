// Rules for an Agent that its schema cannot express: it stands for a machine that has joined, and
// deleting it forgets that machine.

import { type Agent, agentKind } from '../../api/kinds/agent.ts';
import { group, type ObjectMeta } from '../../api/object.ts';
import { siteAgentName } from '../../api/values/agent-name.ts';
import { forbiddenObject } from '../../core/access/denial.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Accompaniment } from '../../core/plane/plane.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Expectation, Store } from '../../core/store/store.ts';
import { formerAgent } from './former-agents.ts';
import { membersCollection, recordsOf } from '../join/member-records.ts';
import type { Member } from '../join/members.ts';

type Named = Pick<ObjectMeta, 'name' | 'deletionTimestamp'>;

const members = recordReader<Member>(membersCollection);

/** Throws HANSA_INVALID for a new Agent whose machine has not joined, or joined without the entries of its name. */
export function admitNewAgent(
  store: Pick<Store, 'get'>,
  {
    metadata: { name },
    spec,
  }: { readonly metadata: Pick<Named, 'name'>; readonly spec: Partial<Agent['spec']> },
): readonly Expectation[] {
  if (name === siteAgentName) return [];
  const member = store.get(membersCollection, `agent/${name}`);
  if (member !== undefined) {
    if (members.of(member).entriesByName === false && spec.entriesByName !== false) {
      throw invalid(
        name,
        'spec.entriesByName',
        'it must be false for a new Agent whose name a forgotten agent had',
      );
    }
    return [{ collection: membersCollection, name: member.name, at: member.revision }];
  }
  throw invalid(
    name,
    'metadata.name',
    `${JSON.stringify(name)}: no machine has joined under this name. The site creates an Agent when its machine joins: create a JoinToken for the role agent, and run hansa agent run --name ${name} on the machine`,
  );
}

function invalid(name: string, field: string, why: string): HansaError {
  const { kind } = agentKind;
  const message = `Invalid value: ${why}`;
  return new HansaError(
    'HANSA_INVALID',
    `${kind}.${group} "${name}" is invalid: ${field}: ${message}`,
    {
      details: { group, kind, name, causes: [{ reason: 'FieldValueInvalid', message, field }] },
    },
  );
}

/** Throws HANSA_FORBIDDEN for the Agent of the site itself. */
export function admitAgentDeletion({ name }: Pick<Named, 'name'>): void {
  if (name !== siteAgentName) return;
  throw forbiddenObject(
    agentKind.plural,
    name,
    'it stands for the machine of the site itself. To serve no workloads there, give every WorkloadEntry other agents',
  );
}

/**
 * The records that go with an Agent. An object that waits for finalizers is forgotten when it is marked:
 * when it disappears, another machine may have joined under its name.
 */
export function accompanyAgent(
  next: Named | undefined,
  live: Named | undefined,
): Accompaniment | undefined {
  if (live === undefined || live.deletionTimestamp !== undefined) return undefined;
  if (next !== undefined && next.deletionTimestamp === undefined) return undefined;
  return {
    // The writer itself deletes or marks the object.
    put: [formerAgent(live.name)],
    delete: recordsOf(`agent/${live.name}`).filter(
      ({ collection }) => collection !== agentKind.plural,
    ),
    meaning: 'forgotten: its SVID is rejected, and its name is free',
  };
}
