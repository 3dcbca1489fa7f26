// Lists the federated policies as this site sees them, for commands. It reads caches only.

import { timestamp } from '../../../api/object.ts';
import { isRecord } from '../../../core/json/is-record.ts';
import type { ReflectorStatus } from '../../../core/kube/reflector/reflector-options.ts';
import { findCondition } from '../../../core/reconcile/conditions.ts';
import type { Condition } from '../../objects.ts';
import type { PolicySettings } from '../../settings.ts';
import { chooseVersion, isSameVersion, versionOf } from '../choose-version.ts';
import type { OutcomeReason } from '../compile-policy.ts';
import { fullnessOf } from '../limits/policy-limits.ts';
import { idOfKind, type PolicyKind, textOfKind } from '../policy-kinds.ts';
import {
  knownPolicies,
  type Now,
  policyIn,
  type PolicyMember,
  recordIn,
  servesKind,
  viewOf,
} from '../policy-member.ts';
import { cacheKeyOf, keyOfPolicy, policyOfKey, type PolicyRef } from '../policy-ref.ts';
import type { PolicyView, Version } from '../policy-state.ts';
import { type SelectableMember, selectableServices } from './selectable-services.ts';
import { type SelectableServices, selectedServices, type Selection } from './selected-services.ts';
import type { FederatedPolicyView, PolicyInCluster } from './shown-policy.ts';
import { explainOutcome, replicatedCondition } from '../tell-outcome.ts';

export interface ListPoliciesOptions {
  readonly members: {
    list(): readonly (PolicyMember & SelectableMember)[];
  };
  readonly settings: PolicySettings;
  /** Of the annotations for ExternalDNS. */
  readonly dnsPrefix: string;
  readonly now: Now;
}

/** Views of clusters in one page, so that its size does not grow with their number. */
const mostViews = 20_000;
const mostPolicies = 500;

export interface PolicyPage {
  /** By key. */
  readonly policies: readonly FederatedPolicyView[];
  /** The key of the last one that was looked at, where there are more. */
  readonly last: string | undefined;
}

export interface PolicyQuery {
  readonly after?: string;
  readonly limit?: number;
  /** NAMESPACE/NAME, or NAME. Of policies of any kind. */
  readonly name?: string;
}

/** The federated policies after the key `after`, at most `limit`, as they are now: pages are not of one moment. */
export function listPolicies(
  options: ListPoliciesOptions,
  { after = '', limit = mostPolicies, name }: PolicyQuery = {},
): PolicyPage {
  const members = options.members.list();
  const refs = knownPolicies(options.members);
  const keys = [...refs.keys()]
    .filter((key) => key > after)
    .filter((key) => name === undefined || cacheKeyOf(refs.get(key) as PolicyRef) === name)
    .toSorted();
  const fitting = Math.max(1, Math.floor(mostViews / Math.max(1, members.length)));
  const page = keys.slice(0, Math.min(limit, mostPolicies, fitting));
  const shown = new Shown(options);
  return {
    policies: page.map((key) => shown.view(refs.get(key) as PolicyRef)),
    last: page.length < keys.length ? page.at(-1) : undefined,
  };
}

/** Undefined where no member has the policy or a record of it. */
export function findPolicy(
  key: string,
  options: ListPoliciesOptions,
): FederatedPolicyView | undefined {
  const ref = policyOfKey(key);
  if (ref === undefined || !options.settings.kinds.some((kind) => isOf(kind, ref))) {
    return undefined;
  }
  const isKnown = options.members
    .list()
    .some(
      (member) =>
        policyIn(member, ref)?.held.isFederated === true || recordIn(member, ref) !== undefined,
    );
  return isKnown ? new Shown(options).view(ref) : undefined;
}

const isOf = (kind: PolicyKind, ref: PolicyRef): boolean => idOfKind(kind) === idOfKind(ref);

/** Makes views at one moment. */
class Shown {
  readonly #options: ListPoliciesOptions;
  readonly #members: ReturnType<ListPoliciesOptions['members']['list']>;
  #services: SelectableServices | undefined;

  constructor(options: ListPoliciesOptions) {
    this.#options = options;
    this.#members = options.members.list().toSorted((a, b) => (a.clusterID < b.clusterID ? -1 : 1));
  }

  view(ref: PolicyRef): FederatedPolicyView {
    const { settings, now } = this.#options;
    const { retentionMs, kinds } = settings;
    const views = this.#members.map((member) => ({
      member,
      view: viewOf(member, ref, now, retentionMs),
    }));
    const newest = chooseVersion(
      views.map(({ view }) => view),
      { nowMs: now.nowMs, retentionMs },
    );
    const { group, plural: resource, namespace, name } = ref;
    const limit = this.#members.map((member) => toldIn(member, ref)).find(isOverLimit)?.message;
    const selection = newest?.state === 'Live' ? this.#selectionOf(ref, newest) : undefined;
    const kind = kinds.find((each) => isOf(each, ref));
    const misfit = kind && misfitOf(kind, ref);
    return {
      key: keyOfPolicy(ref),
      group,
      resource,
      kind: kind?.kind ?? resource,
      namespace,
      name,
      state: newest?.state ?? 'None',
      ...(newest !== undefined && {
        version: {
          origin: newest.stamp.clusterID,
          edited: timestamp(newest.stamp.timeMs),
          stamp: newest.stamp,
          hash: newest.versionHash,
        },
      }),
      clusters: views.map(({ member, view }) =>
        inCluster(member, ref, view, { newest, limit, misfit }),
      ),
      ...(selection !== undefined && { selection }),
    };
  }

  #selectionOf(ref: PolicyRef, { versionHash }: Version): Selection | undefined {
    const found = this.#members
      .map((member) => policyIn(member, ref))
      .find((policy) => policy?.held.hash === versionHash);
    if (found?.content === undefined) return undefined;
    return selectedServices({
      kind: ref,
      namespace: ref.namespace,
      spec: found.content.fields['spec'],
      services: this.#selectable(),
      groupOf: (namespace, name) => this.#groupOf(namespace, name),
    });
  }

  /** Known only where groups are federated too. */
  #groupOf(namespace: string, name: string) {
    const plural = namespace === '' ? 'clustergroups' : 'groups';
    const ref = { group: antrea, plural, namespace, name };
    for (const member of this.#members) {
      const spec = policyIn(member, ref)?.content?.fields['spec'];
      if (isRecord(spec)) return spec;
    }
    return undefined;
  }

  #selectable(): SelectableServices {
    this.#services ??= selectableServices(this.#members, this.#options.dnsPrefix);
    return this.#services;
  }
}

const antrea = 'crd.antrea.io';

function inCluster(
  member: PolicyMember,
  ref: PolicyRef,
  view: PolicyView,
  league: LeagueView,
): PolicyInCluster {
  const { clusterID } = member;
  const { record } = view;
  const holds = record && {
    state: record.state,
    ...(record.stamp !== undefined && { stamp: record.stamp }),
  };
  return { clusterID, ...statusIn(member, ref, view, league), ...(holds && { holds }) };
}

/** What all clusters have in common. */
interface LeagueView {
  readonly newest: Version | undefined;
  /** Why clusters that do not have the newest version do not get it, as the cluster says that it belongs to. */
  readonly limit: string | undefined;
  /** Why sites leave a policy alone. */
  readonly misfit: string | undefined;
}

/** A site federates only policies whose scope is that of their kind in the setting. */
function misfitOf(kind: PolicyKind, { namespace }: PolicyRef): string | undefined {
  if (kind.isNamespaced === (namespace !== '')) return undefined;
  const [has, fix] = kind.isNamespaced
    ? ['no namespace', 'add :cluster to this entry']
    : ['a namespace', 'remove :cluster from this entry'];
  return `The policy has ${has}, other than kubernetes.policyKinds says, so it is not federated. If all policies of this kind are so, ${fix} at all sites: ${textOfKind(kind)}`;
}

/** The condition of its record. */
function toldIn(member: PolicyMember, ref: PolicyRef): Condition | undefined {
  return findCondition(recordIn(member, ref)?.status?.conditions, replicatedCondition);
}

const isOverLimit = (condition: Condition | undefined): condition is Condition =>
  condition?.status === 'False' && condition.reason === 'TooMany';

type Status = Pick<PolicyInCluster, 'status' | 'reason' | 'message'>;

/** Reasons that only the leader knows, from the condition of the record. */
const toldReasons: ReadonlySet<string> = new Set<OutcomeReason>([
  'UserPolicyInTheWay',
  'RejectedByServer',
  'TooLarge',
  'Terminating',
  'NoSource',
  'Stale',
  'ReceivesOnly',
  'TooMany',
]);

function statusIn(
  member: PolicyMember,
  ref: PolicyRef,
  { isReady, object, record }: PolicyView,
  { newest, limit, misfit }: LeagueView,
): Status {
  const { state, clusterID } = member;
  if (misfit !== undefined) return { status: 'False', reason: 'WrongScope', message: misfit };
  if (state.state !== 'Ready') {
    return { status: 'Unknown', reason: state.reason, message: state.message };
  }
  const serves = servesKind(member, ref);
  if (serves === false) return outcome(ref, 'False', 'NotServed');
  const failure = failureIn(member, ref);
  // What was read before is old.
  if (!isReady || failure?.reason === 'over-limit') return notFollowed(clusterID, failure);
  const condition = toldIn(member, ref);
  const isCurrent = newest !== undefined && isSameVersion(versionOf(record), newest);
  if (newest?.state === 'Live' && isCurrent && object?.hash === record?.storedHash) {
    if (isOverLimit(condition)) return told(condition);
    const isSame = record?.storedHash === record?.versionHash;
    return outcome(ref, 'True', isSame ? 'Replicated' : 'StoredDifferently');
  }
  if (newest !== undefined && newest.state !== 'Live' && isEnded(newest, object, isCurrent)) {
    return outcome(ref, 'True', newest.state === 'Deleted' ? 'Deleted' : 'FederationEnded');
  }
  if (ref.namespace !== '' && member.namespaces.byKey(ref.namespace) === undefined) {
    return outcome(ref, 'False', 'NamespaceMissing');
  }
  if (object?.isFederated === false) return outcome(ref, 'False', 'UserPolicyInTheWay');
  if (condition?.status === 'False' && toldReasons.has(condition.reason)) return told(condition);
  if (limit !== undefined) return { status: 'False', reason: 'TooMany', message: limit };
  const full = fullnessOf(member);
  if (full !== undefined && object === undefined) {
    return { status: 'False', reason: 'TooMany', message: full.message };
  }
  const message = `The leader of ${clusterID} has not written the newest version yet.`;
  return { status: 'False', reason: 'Pending', message };
}

const told = ({ reason, message }: Condition): Status => ({ status: 'False', reason, message });

function failureIn({ policies, policyRecords }: PolicyMember, ref: PolicyRef): Failure | undefined {
  const failures = [policies.get(idOfKind(ref)), policyRecords].map(
    (reflector) => reflector?.status().failure,
  );
  return failures.find((each) => each?.reason === 'over-limit') ?? failures.find(Boolean);
}

type Failure = Pick<NonNullable<ReflectorStatus['failure']>, 'reason' | 'message'>;

/** Why this site does not follow policies of this kind, or records. */
function notFollowed(clusterID: string, failure: Failure | undefined): Status {
  const [status, reason] = ['Unknown', 'NotFollowed'] as const;
  const start = `This site does not follow the policies of ${clusterID}`;
  if (failure === undefined) return { status, reason, message: `${start} yet.` };
  switch (failure.reason) {
    case 'over-limit': {
      const message = `${start}, because it has more policies and records than the site keeps in memory: ${failure.message}. Delete policies that are not needed there. The site tries again every five minutes.`;
      return { status, reason: 'TooMany', message };
    }
    case 'forbidden':
    case 'not-found': {
      const message = `${start}. Run hansa cluster join again, which gives it the rights.`;
      return { status, reason, message };
    }
    default:
      return { status, reason, message: `${start}: ${failure.message}` };
  }
}

/** A cluster that never had the policy has nothing to delete. A policy of a user stays after the end of federation. */
function isEnded({ state }: Version, object: PolicyView['object'], isCurrent: boolean): boolean {
  return object?.isFederated !== true || (state === 'Ended' && isCurrent);
}

const outcome = (ref: PolicyRef, status: 'True' | 'False', reason: OutcomeReason): Status => ({
  status,
  reason,
  message: explainOutcome(ref, { status, reason }),
});
