// The route that tells commands the state of the members. It contains no secret.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { timestamp } from '../../api/object.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import type { LeagueInfo, MemberInfo } from '../client/league-info.ts';
import type { LeavingMembers } from '../leaving/leaving-members.ts';
import type { Member } from '../members/member.ts';
import type { MemberSet } from '../members/member-set.ts';
import { listedMembers } from '../members/read-federation.ts';
import { countPolicies } from '../policies/view/count-policies.ts';
import { kubernetesPaths } from '../paths.ts';
import { textOfKind } from '../policies/policy-kinds.ts';
import type { KubernetesSettings } from '../settings.ts';

/** What the route shows of a league. */
export interface ShownLeague {
  /** The name of the Cluster. */
  readonly home: string;
  readonly members: Pick<MemberSet, 'list' | 'home'> | undefined;
  readonly leaving: Pick<LeavingMembers, 'list'> | undefined;
  readonly waitsFor: string;
}

export function membersRoute(
  { namespace, policies }: Pick<KubernetesSettings, 'namespace' | 'policies'>,
  current: () => ShownLeague | undefined,
): PlaneRoute {
  return route({
    listener: 'api',
    method: 'GET',
    path: kubernetesPaths.members,
    allow: 'rights',
    rights: [{ verb: 'list', kind: clusterKind }],
    handle: () => ({
      status: 200,
      contentType: 'application/json',
      body: JSON.stringify({
        ...infoOf(namespace, current()),
        policyKinds: policies.kinds.map(textOfKind).join(','),
      } satisfies LeagueInfo),
    }),
  });
}

export function infoOf(namespace: string, league: ShownLeague | undefined): LeagueInfo {
  if (league === undefined) return { namespace, supervisor: false, members: [] };
  const { home, members, waitsFor } = league;
  if (members === undefined) {
    return { namespace, home, supervisor: false, problem: waitsFor, members: [] };
  }
  const { identity, federation, failure } = members.home;
  const [homeID] = identity?.ids ?? [];
  const missing =
    federation === undefined && identity !== undefined
      ? 'The local cluster has no Federation. Create it, or run: hansa cluster join'
      : undefined;
  const problem = failure ?? missing;
  return {
    namespace,
    home,
    ...(homeID !== undefined && { homeID }),
    supervisor: identity?.isSupervisor ?? false,
    ...(problem !== undefined && { problem }),
    ...(federation !== undefined && { clusterSet: listedMembers(federation).clusterSet }),
    members: members.list().map(memberInfo),
    leaving: (league.leaving?.list() ?? []).map(({ sinceMs, ...view }) => ({
      ...view,
      since: timestamp(sinceMs),
    })),
  };
}

function memberInfo({ clusterID, state: now, leader, policyRecords }: Member): MemberInfo {
  const { state, sinceMs, reason, message } = now;
  return {
    clusterID,
    state,
    since: timestamp(sinceMs),
    reason,
    message,
    ...(leader !== undefined && leader.holder !== '' && { leader: leader.holder }),
    ...(leader !== undefined && { epoch: leader.epoch }),
    ...(policyRecords.isSynced && { policies: countPolicies(policyRecords.objects()) }),
  };
}
