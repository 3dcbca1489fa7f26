// The rows that `hansa policy` shows of federated policies, and what their health is. Pure.

import type { LeagueInfo } from '../client/league-info.ts';
import { absentReasons, conflictReasons } from '../policies/view/count-policies.ts';
import type { FederatedPolicyView, PolicyInCluster } from '../policies/view/shown-policy.ts';
import { siteOf } from './service-details.ts';

export type PolicyHealth = 'Replicated' | 'Conflict' | 'Pending' | 'Degraded' | 'Deleted' | 'Ended';

type Rows = readonly (readonly string[])[];

/** RESOURCE.GROUP/NAMESPACE/NAME, or RESOURCE.GROUP/NAME. What `hansa policy show` takes. */
export const fullNameOf = ({ resource, group, namespace, name }: FederatedPolicyView): string =>
  [`${resource}.${group}`, namespace, name].filter((part) => part !== '').join('/');

const shortNameOf = ({ namespace, name }: FederatedPolicyView): string =>
  namespace === '' ? name : `${namespace}/${name}`;

const isRelevant = ({ reason }: PolicyInCluster): boolean => !absentReasons.has(reason);

/** With the first problem that a user should look at. */
export function policyHealthOf({ state, clusters }: FederatedPolicyView): {
  readonly health: PolicyHealth;
  readonly why: string;
} {
  const found = (isFound: (one: PolicyInCluster) => boolean): string | undefined => {
    const one = clusters.find(
      (each) => each.status !== 'True' && isRelevant(each) && isFound(each),
    );
    return one && `${one.clusterID}: ${one.message}`;
  };
  const conflict = found(({ reason }) => conflictReasons.has(reason));
  if (conflict !== undefined) return { health: 'Conflict', why: conflict };
  const pending = found(({ status }) => status === 'False');
  if (pending !== undefined) return { health: 'Pending', why: pending };
  const unknown = found(() => true);
  if (unknown !== undefined) return { health: 'Degraded', why: unknown };
  if (state === 'Deleted' || state === 'Ended') return { health: state, why: '' };
  return { health: 'Replicated', why: '' };
}

/** What a user should know of a policy that is replicated. */
export function warningsOf({ selection, clusters }: FederatedPolicyView): readonly string[] {
  return [
    ...(selection?.status === 'False' ? [selection.message] : []),
    ...clusters
      .filter(({ reason }) => reason === 'StoredDifferently')
      .map(({ clusterID, message }) => `${clusterID}: ${message}`),
  ];
}

/** How many clusters have the newest version, of those that should. */
function countOf({ clusters }: FederatedPolicyView): string {
  const relevant = clusters.filter(isRelevant);
  return `${relevant.filter(({ status }) => status === 'True').length}/${relevant.length}`;
}

/** The beginning of a hash, as in git. */
const versionText = ({ version }: FederatedPolicyView): string =>
  version === undefined ? '-' : version.hash.slice(0, 10) || '-';

export function policyRows(policies: readonly FederatedPolicyView[], isWide: boolean): Rows {
  return [
    [
      'NAME',
      'KIND',
      'ORIGIN',
      'EDITED',
      'CLUSTERS',
      'STATE',
      ...(isWide ? ['VERSION', 'WHY'] : []),
    ],
    ...policies.map((policy) => {
      const { health, why } = policyHealthOf(policy);
      const [warning] = warningsOf(policy);
      const state = warning === undefined ? health : `${health}, warning`;
      return [
        shortNameOf(policy),
        isWide ? `${policy.kind} (${policy.group})` : policy.kind,
        policy.version?.origin ?? '-',
        policy.version?.edited ?? '-',
        countOf(policy),
        state,
        ...(isWide ? [versionText(policy), why || (warning ?? '')] : []),
      ];
    }),
  ];
}

/** Two tables: the policy, and the clusters with their leaders. */
export function policyDetails(policy: FederatedPolicyView, league: LeagueInfo): readonly Rows[] {
  const { health, why } = policyHealthOf(policy);
  const { version } = policy;
  return [
    [
      ['policy', fullNameOf(policy)],
      ['kind', `${policy.kind} (${policy.group})`],
      ...(version === undefined
        ? []
        : [
            [
              policy.state === 'Live' ? 'edited' : 'ended',
              `${version.edited} in ${version.origin}`,
            ],
            ...(version.hash === '' ? [] : [['version', versionText(policy)]]),
          ]),
      ['state', why === '' ? health : `${health}: ${why}`],
      ...warningsOf(policy).map((warning) => ['warning', warning]),
    ],
    [
      ['CLUSTER', 'LEADER', 'EPOCH', 'HOLDS', 'REASON', 'MESSAGE'],
      ...policy.clusters.map(({ clusterID, status, reason, message, holds }) => {
        const member = league.members.find((each) => each.clusterID === clusterID);
        return [
          clusterID,
          siteOf(member?.leader),
          member?.epoch === undefined ? '-' : String(member.epoch),
          heldText(status, holds),
          reason,
          message,
        ];
      }),
    ],
  ];
}

function heldText(status: PolicyInCluster['status'], holds: PolicyInCluster['holds']): string {
  if (status === 'True') return 'newest';
  if (holds?.stamp === undefined) return 'none';
  return `of ${new Date(holds.stamp.timeMs).toISOString().replace('.000Z', 'Z')} in ${holds.stamp.clusterID}`;
}
