// The check of `hansa doctor` for the members of the cluster set. It asks the site and calls no cluster.

import { printable } from '../../core/command/columns.ts';
import { type Finding, ok, problem, type SiteCheck, warning } from '../../core/plane/doctor.ts';
import { type LeagueInfo, servedLeague } from '../client/league-info.ts';
import { troubledMembers, unledMembers } from '../status.ts';

const check = 'members';
/** More would hide the other findings. */
const maxTold = 5;

export const membersCheck: SiteCheck = {
  name: check,
  follows: 'clusters',
  run: async ({ client, running }) => (running ? judgeLeague(await servedLeague(client)) : []),
};

/** A site that is no supervisor has nothing to say about members. */
export function judgeLeague(info: LeagueInfo | undefined): readonly Finding[] {
  if (info?.supervisor !== true) return [];
  const { members, leaving = [] } = info;
  const home =
    info.problem === undefined
      ? []
      : [problem(check, 'the home cluster cannot be followed', printable(info.problem))];
  const troubled = troubledMembers(members);
  const refused = unledMembers(members);
  const unled = members.filter(
    (member) =>
      member.state === 'Ready' && member.leader === undefined && !refused.includes(member),
  );
  const more = troubled.length - maxTold;
  const found = [
    ...home,
    ...troubled
      .slice(0, maxTold)
      .map(({ clusterID, state, message }) =>
        problem(check, `${clusterID} is ${state.toLowerCase()}`, printable(message)),
      ),
    ...(more > 0
      ? [
          warning(
            check,
            `and ${more} more`,
            'kubectl get federation federation -o yaml lists them.',
          ),
        ]
      : []),
    ...refused
      .slice(0, maxTold)
      .map(({ clusterID, message }) =>
        warning(check, `this site cannot lead ${clusterID}`, printable(message)),
      ),
    ...unled
      .slice(0, maxTold)
      .map(({ clusterID }) =>
        warning(
          check,
          `${clusterID} has no leader`,
          'A supervisor takes its Lease within seconds. If this stays, look for errors about Leases in the log of the site.',
        ),
      ),
    ...members
      .filter(({ policies }) => (policies?.conflicts ?? 0) > 0)
      .slice(0, maxTold)
      .map(({ clusterID, policies }) =>
        warning(
          check,
          `${clusterID} cannot get ${policies?.conflicts} federated ${policies?.conflicts === 1 ? 'policy' : 'policies'}`,
          'hansa policy list -o wide says why, and what to do.',
        ),
      ),
    ...leaving
      .slice(0, maxTold)
      .map(({ clusterID, message }) =>
        warning(check, `${clusterID} left and may have copies`, printable(message)),
      ),
  ];
  if (found.length > 0) return found;
  const ready = members.filter(({ state }) => state === 'Ready').length;
  return [
    ok(check, ready === members.length ? `${ready} ready` : `${ready} of ${members.length} ready`),
  ];
}
