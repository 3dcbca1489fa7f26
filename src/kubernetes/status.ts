// The part of `hansa status` about the cluster set.

import { printable } from '../core/command/columns.ts';
import type { StatusPart } from '../core/plane/command-line.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { type LeagueInfo, type MemberInfo, servedLeague } from './client/league-info.ts';

/** More would hide the other parts of the status. */
const maxTold = 5;

export async function kubernetesStatus(client: SiteClient): Promise<StatusPart> {
  return statusOf(await servedLeague(client));
}

/** A site that is no supervisor has nothing to say about members. */
export function statusOf(info: LeagueInfo | undefined): StatusPart {
  if (info?.supervisor !== true) return { fields: {}, rows: [], lines: [] };
  const { members, clusterSet, problem, leaving = [] } = info;
  const ready = members.filter(({ state }) => state === 'Ready').length;
  const troubled = troubledMembers(members);
  const more = troubled.length - maxTold;
  return {
    fields: {
      league: {
        ...(clusterSet !== undefined && { clusterSet }),
        total: members.length,
        ready,
        troubled: troubled.map(({ clusterID, state, reason }) => ({ clusterID, state, reason })),
        leaving: leaving.map(({ clusterID, reason }) => ({ clusterID, reason })),
      },
    },
    rows: [
      [
        'members',
        printable(
          `${members.length}, ${ready} ready${clusterSet === undefined ? '' : `, in cluster set ${clusterSet}`}`,
        ),
      ],
    ],
    lines: [
      ...(problem === undefined ? [] : [printable(`home cluster ${info.home ?? ''}: ${problem}`)]),
      ...troubled
        .slice(0, maxTold)
        .map(({ clusterID, state, message }) =>
          printable(`member ${clusterID}: ${state}. ${message}`),
        ),
      ...(more > 0 ? [`and ${more} more: kubectl get federation federation -o yaml`] : []),
      ...leaving
        .slice(0, maxTold)
        .map(({ clusterID, message }) => printable(`leaving ${clusterID}: ${message}`)),
    ],
  };
}

/** Refused ones first: they need somebody who corrects something. */
export function troubledMembers(members: readonly MemberInfo[]): readonly MemberInfo[] {
  return members
    .filter(({ state }) => state === 'Refused' || state === 'Unreachable')
    .toSorted((a, b) => Number(b.state === 'Refused') - Number(a.state === 'Refused'));
}
