// Metrics of the league: the state, leader and epoch of each member, and its reflectors.

import type { ReflectorStatus } from '../../core/kube/reflector/reflector-options.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { MemberState } from '../members/member.ts';
import { countPolicies } from '../policies/view/count-policies.ts';
import type { MemberSet } from '../members/member-set.ts';

/** `Federation` lists no more. */
const mostMembers = 250;
/** Of them 16 kinds of policies at most. */
const mostCollections = 25;
const states: readonly MemberState['state'][] = ['Connecting', 'Ready', 'Unreachable', 'Refused'];

/** Declared once in a process. `current` is asked at each scrape. */
export function observeLeague(
  metrics: Metrics,
  current: () => Pick<MemberSet, 'list'> | undefined,
  nowMs: () => number,
): void {
  const list = () => current()?.list() ?? [];
  metrics.observe(
    {
      name: 'hansa_league_members',
      help: 'Members of the cluster set by state: Connecting, Ready, Unreachable, Refused.',
      labels: ['state'],
    },
    (report) => {
      if (current() === undefined) return;
      for (const state of states) {
        report({ state }, list().filter((member) => member.state.state === state).length);
      }
    },
  );
  const perMember = { labels: ['cluster'], mostSeries: mostMembers } as const;
  metrics.observe(
    {
      name: 'hansa_league_member_ready',
      help: 'Whether this process reads and follows the objects of each member (1) or not (0).',
      ...perMember,
    },
    (report) => {
      for (const { clusterID, state } of list()) {
        report({ cluster: clusterID }, state.state === 'Ready' ? 1 : 0);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_league_member_refused',
      help: 'Whether a member is refused, because it is not the cluster that Federation means (1), or not (0).',
      ...perMember,
    },
    (report) => {
      for (const { clusterID, state } of list()) {
        report({ cluster: clusterID }, state.state === 'Refused' ? 1 : 0);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_league_member_lease_age_seconds',
      help: 'Time since this process saw a leader renew the Lease of each member. Members whose Lease it never saw have no value.',
      ...perMember,
    },
    (report) => {
      for (const { clusterID, leaseSeenMs } of list()) {
        if (leaseSeenMs === undefined) continue;
        report({ cluster: clusterID }, Math.max(0, nowMs() - leaseSeenMs) / 1000);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_league_member_epoch',
      help: 'The term of the leader of each member, as its Lease says.',
      ...perMember,
    },
    (report) => {
      for (const { clusterID, leader } of list()) {
        if (leader !== undefined) report({ cluster: clusterID }, leader.epoch);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_league_policies',
      help: 'Federated policies of each member by state: replicated (it has the newest version), conflict (it needs a user), pending.',
      labels: ['cluster', 'state'],
      mostSeries: mostMembers * 3,
    },
    function* (report) {
      for (const { clusterID: cluster, policyRecords } of list()) {
        if (!policyRecords.isSynced) continue;
        const { replicated, conflicts, pending } = countPolicies(policyRecords.objects());
        report({ cluster, state: 'replicated' }, replicated);
        report({ cluster, state: 'conflict' }, conflicts);
        report({ cluster, state: 'pending' }, pending);
        yield;
      }
    },
  );
  observeReflectors(metrics, list, nowMs);
}

function observeReflectors(
  metrics: Metrics,
  list: () => ReturnType<MemberSet['list']>,
  nowMs: () => number,
): void {
  const perCollection = {
    labels: ['cluster', 'collection'],
    mostSeries: mostMembers * mostCollections,
  } as const;
  const observe = (
    named: { readonly name: string; readonly help: string },
    valueOf: (status: ReflectorStatus) => number | undefined,
  ): void =>
    metrics.observe({ ...named, ...perCollection }, function* (report) {
      for (const { clusterID, reflectors } of list()) {
        for (const [collection, reflector] of reflectors) {
          const value = valueOf(reflector.status());
          if (value !== undefined) report({ cluster: clusterID, collection }, value);
        }
        yield;
      }
    });
  observe(
    { name: 'hansa_league_objects', help: 'Cached objects of each member.' },
    ({ objects }) => objects,
  );
  observe(
    {
      name: 'hansa_league_relists',
      help: 'Lists of a collection of a member after the first one, since this process follows it.',
    },
    ({ relists }) => relists,
  );
  observe(
    {
      name: 'hansa_league_silence_seconds',
      help: 'Time since the last event or bookmark of a collection of a member. Up to 150 seconds are normal.',
    },
    ({ lastEventMs }) =>
      lastEventMs === undefined ? undefined : Math.max(0, nowMs() - lastEventMs) / 1000,
  );
}
