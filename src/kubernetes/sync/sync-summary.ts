// Says how the sync of a marked cluster goes, for the status of its Cluster. Pure.

import type { Kind } from '../../api/kind.ts';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { printableText } from '../../core/kube/kube-errors.ts';
import type { FailureReason } from '../../core/kube/reflector/reflector-failure.ts';
import {
  type ConditionUpdate,
  findCondition,
  setCondition,
} from '../../core/reconcile/conditions.ts';
import { syncCondition } from '../names.ts';
import type { Outcome } from './object-sync.ts';

/** One kind of a marked cluster. */
export interface KindState {
  readonly kind: Kind;
  /** Whether this site serves the kind. */
  readonly isServed: boolean;
  /** Whether this process follows the objects. Another replica of the site may do it. */
  readonly isRunning: boolean;
  readonly isRead: boolean;
  readonly failure: { readonly reason: FailureReason; readonly message: string } | undefined;
  /** Why requests fail, apart from reading the objects. */
  readonly problem: string | undefined;
}

export type SyncCounts = Readonly<Record<Outcome['state'], number>>;

export function countOutcomes(outcomes: Iterable<Outcome>): SyncCounts {
  const counts = { accepted: 0, refused: 0, kept: 0 };
  for (const { state } of outcomes) counts[state] += 1;
  return counts;
}

type Finding = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

const reasons: Readonly<Partial<Record<FailureReason, string>>> = {
  unreachable: 'Unreachable',
  certificate: 'Unreachable',
  credential: 'CredentialMissing',
  unauthorized: 'Unauthorized',
  forbidden: 'Forbidden',
  'not-found': 'NotInstalled',
  'over-limit': 'TooMany',
  'too-large': 'TooMany',
};

const maxMessageLength = 1024;

export function syncFinding(
  cluster: string,
  states: readonly KindState[],
  counts: SyncCounts,
): Finding {
  const unserved = states.find(({ isServed }) => !isServed);
  if (unserved !== undefined) {
    return {
      status: 'False',
      reason: 'KindNotServed',
      message: `This site does not serve ${unserved.kind.kind}. Remove it from spec.sync.kinds.`,
    };
  }
  for (const { kind, failure, problem } of states) {
    if (failure !== undefined) return failureFinding(cluster, kind, failure);
    if (problem !== undefined) {
      return {
        status: 'False',
        reason: 'Failed',
        message: `${kind.kind}: ${shown(problem)} ${install(cluster)}`,
      };
    }
  }
  const unread = states.filter(({ isRead }) => !isRead);
  if (unread.length > 0) {
    return {
      status: 'Unknown',
      reason: 'Reading',
      message: `The site reads ${namesOf(unread)} of the cluster for the first time.`,
    };
  }
  return { status: 'True', reason: 'Following', message: countsText(states, counts) };
}

function failureFinding(
  cluster: string,
  kind: Kind,
  { reason, message }: NonNullable<KindState['failure']>,
): Finding {
  const needsInstallation = reason === 'forbidden' || reason === 'not-found';
  const advice = needsInstallation ? ` ${install(cluster)}` : '';
  return {
    status: 'False',
    reason: reasons[reason] ?? 'Failed',
    message: `${kind.kind}: ${shown(message)}${advice}`,
  };
}

const shown = (text: string): string => printableText(text, maxMessageLength);

const install = (cluster: string): string =>
  `Install the CRDs and rights in the cluster: hansa cluster sync ${cluster} --kubeconfig FILE`;

function countsText(states: readonly KindState[], { accepted, refused, kept }: SyncCounts): string {
  return [
    `The site has ${accepted} ${accepted === 1 ? 'object' : 'objects'} of the cluster (${namesOf(states)}).`,
    ...(refused === 0 ? [] : [`It refuses ${refused}: their status in the cluster says why.`]),
    ...(kept === 0 ? [] : [`${kept} more came from the cluster and are not there any more.`]),
  ].join(' ');
}

const namesOf = (states: readonly KindState[]): string =>
  states.map(({ kind }) => kind.kind).join(', ');

type ClusterStatus = NonNullable<Cluster['status']>;

export function withSync(
  cluster: Cluster,
  finding: Finding,
  counts: SyncCounts,
  nowMs: number,
): ClusterStatus {
  const { status, metadata } = cluster;
  const update = { type: syncCondition, ...finding, observedGeneration: metadata.generation };
  const { accepted, refused, kept } = counts;
  return {
    ...status,
    sync: { accepted, refused, kept },
    conditions: setCondition(status?.conditions, update, nowMs),
  };
}

/** Whether an earlier mark left something in the status. */
export function hasSync({ status }: Cluster): boolean {
  return (
    status?.sync !== undefined || findCondition(status?.conditions, syncCondition) !== undefined
  );
}

/** For a Cluster that is not marked any more. */
export function withoutSync({ status }: Cluster): ClusterStatus {
  const { sync: _sync, conditions, ...rest } = status ?? {};
  const others = conditions?.filter(({ type }) => type !== syncCondition);
  return { ...rest, ...(others !== undefined && { conditions: others }) };
}
