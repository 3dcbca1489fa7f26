// Computes the status of `Federation` from what this site knows about the members. Pure.

import { claimKeys } from '../../api/kinds/cluster-claim.ts';
import type { Federation } from '../../api/kinds/federation.ts';
import { timestamp } from '../../api/object.ts';
import { isRecord } from '../../core/json/is-record.ts';
import { type ConditionUpdate, setCondition } from '../../core/reconcile/conditions.ts';
import { type ClusterIdentity, identityProblem } from './identity.ts';
import type { Member } from './member.ts';
import { listedMembers, type ReflectedFederation } from './read-federation.ts';

export type FederationStatus = NonNullable<Federation['status']>;
type MemberStatus = NonNullable<FederationStatus['members']>[number];
type Finding = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

/** The limits of the CRD. */
const maxMessageLength = 4096;
const maxReasonLength = 128;
/** More names would make the message unreadable. */
const maxNamed = 5;

export type SeenMember = Pick<Member, 'clusterID' | 'state' | 'leader' | 'admittedAt'>;

/** A cluster that was removed from members. */
export interface SeenLeaving {
  readonly clusterID: string;
  readonly sinceMs: number;
  readonly reason: string;
  readonly message: string;
}

/** As many as members. */
const maxLeaving = 250;

export function federationStatus(
  federation: ReflectedFederation,
  identity: ClusterIdentity,
  members: readonly SeenMember[],
  nowMs: number,
  leaving: readonly SeenLeaving[] = [],
): FederationStatus {
  const { leaving: _, ...old }: FederationStatus = isRecord(federation.status)
    ? federation.status
    : {};
  const known = Array.isArray(old.members) ? old.members : [];
  const conditions = Array.isArray(old.conditions) ? old.conditions : undefined;
  const update = {
    type: 'Ready',
    ...readyFinding(federation, identity, members),
    observedGeneration: federation.metadata.generation,
  };
  return {
    ...old,
    members: members
      .toSorted((a, b) => (a.clusterID < b.clusterID ? -1 : 1))
      .map((member) =>
        memberStatus(
          member,
          known.find((one) => one?.clusterID === member.clusterID),
        ),
      ),
    ...(leaving.length > 0 && { leaving: leaving.slice(0, maxLeaving).map(leavingStatus) }),
    conditions: setCondition(conditions, update, nowMs),
  };
}

function leavingStatus({ clusterID, sinceMs, reason, message }: SeenLeaving) {
  return {
    clusterID,
    since: timestamp(sinceMs),
    reason: reason.slice(0, maxReasonLength),
    message: message.slice(0, maxMessageLength),
  };
}

/** A process that starts, and another replica, keep the time of the same state. */
function memberStatus(
  { clusterID, state: now, leader, admittedAt }: SeenMember,
  known: MemberStatus | undefined,
): MemberStatus {
  const { state, sinceMs, reason, message } = now;
  const isSame = known?.state === state && known.reason === reason;
  return {
    clusterID,
    state,
    since: isSame ? known.since : timestamp(sinceMs),
    admitted: known?.admitted ?? admittedAt,
    reason: reason.slice(0, maxReasonLength),
    message: message.slice(0, maxMessageLength),
    ...(leader !== undefined && leader.holder !== '' && { leader: leader.holder }),
    ...(leader !== undefined && { epoch: leader.epoch }),
  };
}

function readyFinding(
  federation: ReflectedFederation,
  identity: ClusterIdentity,
  members: readonly SeenMember[],
): Finding {
  const { clusterSet } = listedMembers(federation);
  const [id] = identity.ids;
  if (id === undefined) {
    return {
      status: 'False',
      reason: 'ClusterIDMissing',
      message: `This cluster has no ClusterClaim ${claimKeys.id}. Create one with the ID of this cluster.`,
    };
  }
  const problem = identityProblem({ clusterID: id, clusterSet }, identity, undefined);
  if (problem !== undefined) return { status: 'False', ...problem };
  if (!members.some(({ clusterID }) => clusterID === id)) {
    return {
      status: 'False',
      reason: 'HomeNotListed',
      message: `Federation does not list this cluster. Add a member with clusterID ${id}.`,
    };
  }
  for (const [state, reason] of [
    ['Refused', 'MembersRefused'],
    ['Unreachable', 'MembersUnreachable'],
  ] as const) {
    const found = members.filter((member) => member.state.state === state);
    const [first] = found;
    if (first === undefined) continue;
    const message = `${named(found)}: ${state.toLowerCase()}. ${first.state.message}`;
    return { status: 'False', reason, message: message.slice(0, maxMessageLength) };
  }
  const connecting = members.filter(({ state }) => state.state !== 'Ready');
  if (connecting.length > 0) {
    const message = `This site reads ${named(connecting)}.`;
    return { status: 'Unknown', reason: 'Connecting', message };
  }
  return {
    status: 'True',
    reason: 'MembersReady',
    message: `This site follows ${members.length === 1 ? 'the only member' : `all ${members.length} members`}.`,
  };
}

function named(members: readonly SeenMember[]): string {
  const names = members.slice(0, maxNamed).map(({ clusterID }) => clusterID);
  const more = members.length - names.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
}
