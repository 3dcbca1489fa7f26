// The part of `hansa status` about the cluster set and about marked clusters.

import { type Cluster, clusterKind } from '../api/kinds/cluster.ts';
import { printable } from '../core/command/columns.ts';
import type { StatusPart } from '../core/plane/command-line.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { type LeagueInfo, type MemberInfo, servedLeague } from './client/league-info.ts';
import type { PolicyCounts } from './policies/view/count-policies.ts';
import { markedClusters } from './client/marked-info.ts';
import { noLeader } from './members/judge-member.ts';

/** More would hide the other parts of the status. */
const maxTold = 5;

export async function kubernetesStatus(client: SiteClient): Promise<StatusPart> {
  const league = statusOf(await servedLeague(client));
  const { items } = await client.list(clusterKind);
  const sync = syncStatusOf(items as unknown as readonly Cluster[]);
  return {
    fields: { ...league.fields, ...sync.fields },
    rows: [...(league.rows ?? []), ...(sync.rows ?? [])],
    lines: [...(league.lines ?? []), ...(sync.lines ?? [])],
  };
}

/** A site without marked clusters has nothing to say about them. */
export function syncStatusOf(clusters: readonly Cluster[]): StatusPart {
  const marked = markedClusters(clusters);
  if (marked.length === 0) return { fields: {}, rows: [], lines: [] };
  const sum = (field: 'accepted' | 'refused' | 'kept'): number =>
    marked.reduce((total, each) => total + each[field], 0);
  const [accepted, refused, kept] = [sum('accepted'), sum('refused'), sum('kept')];
  const troubled = marked.filter(({ state }) => state === 'False');
  const more = troubled.length - maxTold;
  const counts = [
    `${marked.length}`,
    `${accepted} ${accepted === 1 ? 'object' : 'objects'}`,
    ...(refused === 0 ? [] : [`${refused} refused`]),
    ...(kept === 0 ? [] : [`${kept} kept`]),
  ];
  return {
    fields: {
      sync: {
        clusters: marked.length,
        accepted,
        refused,
        kept,
        troubled: troubled.map(({ name, message }) => ({ name, message })),
      },
    },
    rows: [['synced clusters', counts.join(', ')]],
    lines: [
      ...troubled
        .slice(0, maxTold)
        .map(({ name, message }) =>
          printable(`cluster ${name}: its objects are not followed. ${message}`),
        ),
      ...(more > 0 ? [`and ${more} more: hansa doctor`] : []),
    ],
  };
}

/** A site that is no supervisor has nothing to say about members. */
export function statusOf(info: LeagueInfo | undefined): StatusPart {
  if (info?.supervisor !== true) return { fields: {}, rows: [], lines: [] };
  const { members, clusterSet, problem, leaving = [] } = info;
  const ready = members.filter(({ state }) => state === 'Ready').length;
  const troubled = troubledMembers(members);
  const more = troubled.length - maxTold;
  const policies = policyTotals(members);
  return {
    fields: {
      league: {
        ...(clusterSet !== undefined && { clusterSet }),
        total: members.length,
        ready,
        troubled: troubled.map(({ clusterID, state, reason }) => ({ clusterID, state, reason })),
        leaving: leaving.map(({ clusterID, reason }) => ({ clusterID, reason })),
        ...(policies !== undefined && { policies }),
      },
    },
    rows: [
      [
        'members',
        printable(
          `${members.length}, ${ready} ready${clusterSet === undefined ? '' : `, in cluster set ${clusterSet}`}`,
        ),
      ],
      ...policyRows(policies),
    ],
    lines: [
      ...(problem === undefined ? [] : [printable(`home cluster ${info.home ?? ''}: ${problem}`)]),
      ...troubled
        .slice(0, maxTold)
        .map(({ clusterID, state, message }) =>
          printable(`member ${clusterID}: ${state}. ${message}`),
        ),
      ...(more > 0 ? [`and ${more} more: kubectl get federation federation -o yaml`] : []),
      ...unledMembers(members)
        .slice(0, maxTold)
        .map(({ clusterID, message }) => printable(`member ${clusterID}: ${message}`)),
      ...leaving
        .slice(0, maxTold)
        .map(({ clusterID, message }) => printable(`leaving ${clusterID}: ${message}`)),
    ],
  };
}

/** Those that this site follows and cannot lead. */
export function unledMembers(members: readonly MemberInfo[]): readonly MemberInfo[] {
  return members.filter(({ state, reason }) => state === 'Ready' && reason === noLeader);
}

/** Of all members. Undefined where none has policies that are read. */
export function policyTotals(members: readonly MemberInfo[]): PolicyCounts | undefined {
  const known = members.flatMap(({ policies }) => (policies === undefined ? [] : [policies]));
  if (known.length === 0) return undefined;
  return {
    // A policy is in several members.
    replicated: Math.max(...known.map(({ replicated }) => replicated)),
    conflicts: known.reduce((sum, { conflicts }) => sum + conflicts, 0),
    pending: Math.max(...known.map(({ pending }) => pending)),
  };
}

/** A cluster set without policies has nothing to say about them. */
function policyRows(totals: PolicyCounts | undefined): readonly (readonly [string, string])[] {
  const { replicated = 0, conflicts = 0, pending = 0 } = totals ?? {};
  if (replicated + conflicts + pending === 0) return [];
  const counts = [
    `${replicated} replicated`,
    ...(pending === 0 ? [] : [`${pending} pending`]),
    ...(conflicts === 0 ? [] : [`${conflicts} in conflict: hansa policy list -o wide`]),
  ];
  return [['policies', counts.join(', ')]];
}

/** Refused ones first: they need somebody who corrects something. */
export function troubledMembers(members: readonly MemberInfo[]): readonly MemberInfo[] {
  return members
    .filter(({ state }) => state === 'Refused' || state === 'Unreachable')
    .toSorted((a, b) => Number(b.state === 'Refused') - Number(a.state === 'Refused'));
}
