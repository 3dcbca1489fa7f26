// Lists the federated Services as this site sees them, for commands. It reads caches only.

import { shownNames } from '../dns/shown-names.ts';
import { originKey } from '../names.ts';
import type { Service } from '../objects.ts';
import { byAge } from '../services/agree-ports.ts';
import { hasSelector } from '../services/compile-copy.ts';
import { compilePlan, isVoter, type MemberInput, type Plan } from '../services/compile-plan.ts';
import { type FederatedRef, keyOfRef, refOfKey } from '../services/federated-name.ts';
import { keyOfMember, type MemberService } from '../services/member-service.ts';
import type { Tenancy } from '../services/tenures.ts';
import type {
  CopyView,
  FederatedServiceView,
  MemberServiceView,
  NamesView,
} from '../services/service-view.ts';
import { annotatedCopies } from './annotated-copies.ts';
import { findTenancy } from './find-tenancy.ts';
import { collectInputs, hasSlices, outsideAddresses, sourceSlices } from './collect-inputs.ts';
import type { CopyRules } from './copy-rules.ts';
import { type LeftOut, OriginUsage } from './origin-usage.ts';
import { type SyncedMember, type SyncedMembers, usableOf } from './synced-member.ts';

export interface ListOptions {
  readonly members: Pick<SyncedMembers, 'list'>;
  /** The system namespace. */
  readonly namespace: string;
  readonly monotonicMs: number;
  /** Of the annotations for ExternalDNS. */
  readonly dnsPrefix: string;
  /** The ways to federate that are shown. Default: by annotations. */
  readonly rules?: readonly CopyRules[];
}

/** Views of members and copies in one page, so that its size does not grow with the number of clusters. */
const mostViews = 20_000;
const mostServices = 500;
/** Of one federated Service. Only a cluster that exceeds its limits has more. */
const mostMembers = 1000;

export interface ServicePage {
  /** By key. */
  readonly services: readonly FederatedServiceView[];
  /** The key of the last one, where there are more. */
  readonly last: string | undefined;
}

/** The federated Services after the key `after`, at most `limit`, as they are now: pages are not of one moment. */
export function listServices(
  options: ListOptions,
  { after = '', limit = mostServices }: { readonly after?: string; readonly limit?: number } = {},
): ServicePage {
  const members = options.members.list();
  const refs = new Map<string, FederatedRef>();
  for (const rules of rulesOf(options)) {
    for (const member of members) {
      for (const ref of rules.refsIn(member)) refs.set(keyOfRef(ref), ref);
    }
  }
  const keys = [...refs.keys()].filter((key) => key > after).toSorted();
  const fitting = Math.max(1, Math.floor(mostViews / Math.max(1, members.length)));
  const page = keys.slice(0, Math.min(limit, mostServices, fitting));
  const leftOutOf = leftOutNow();
  return {
    services: page.flatMap(
      (key) => viewOf(key, refs.get(key) as FederatedRef, options, leftOutOf) ?? [],
    ),
    last: page.length < keys.length ? page.at(-1) : undefined,
  };
}

/** Undefined where no member Service has this key. */
export function findService(key: string, options: ListOptions): FederatedServiceView | undefined {
  const ref = refOfKey(key, options.namespace);
  const view = ref && viewOf(key, ref, options, leftOutNow());
  return view === undefined || view.members.length === 0 ? undefined : view;
}

const rulesOf = ({ rules, namespace }: ListOptions): readonly CopyRules[] =>
  rules ?? [annotatedCopies(namespace)];

type LeftOutOf = (member: SyncedMember, rules: CopyRules) => LeftOut;

/** Counts each cluster once, when it is asked for. */
function leftOutNow(): LeftOutOf {
  const known = new Map<string, LeftOut>();
  return (member, rules) => {
    const key = `${rules.name}/${member.clusterID}`;
    const found = known.get(key) ?? new OriginUsage(member, rules).leftOut;
    known.set(key, found);
    return found;
  };
}

/** Undefined where this site does not federate in that way. */
function viewOf(
  key: string,
  ref: FederatedRef,
  options: ListOptions,
  leftOutOf: LeftOutOf,
): FederatedServiceView | undefined {
  const { members, monotonicMs, dnsPrefix } = options;
  const isExported = ref.scope === 'exported';
  const rules = rulesOf(options).find(({ name }) => (name === 'imports') === isExported);
  if (rules === undefined) return undefined;
  const all = members.list();
  const { inputs } = collectInputs({
    rules,
    ref,
    key,
    target: undefined,
    members: all,
    monotonicMs,
    names: undefined,
    leftOutOf: (member) => leftOutOf(member, rules),
    live: undefined,
    liveSlices: () => [],
  });
  const tenancyIn = (target: SyncedMember | undefined): Tenancy => {
    const live = target?.services.byKey(rules.serviceOf(ref));
    return findTenancy({ rules, ref, target, members: all, live, nowMs: undefined });
  };
  const planIn = (target: SyncedMember | undefined): Plan =>
    compilePlan(ref, target?.clusterID ?? '', inputs, true, tenancyIn(target));
  const common = planIn(undefined);
  // In these, members count that do not count elsewhere, so the copy can have other ports.
  const special = new Set(
    inputs
      .filter((input) => isVoter(input, true) && !isVoter(input, false))
      .map(({ service }) => service.clusterID),
  );
  const isAgreed = tenancyIn(undefined).records.some(({ from }) => from === 'trusted');
  const planFor = (clusterID: string): Plan =>
    isAgreed && !special.has(clusterID)
      ? common
      : planIn(all.find((member) => member.clusterID === clusterID));
  const { scope, namespace, name } = ref;
  return {
    key,
    scope,
    namespace,
    name,
    ports: common.ports.map(({ name: own, port, protocol }) => ({ name: own, port, protocol })),
    members: inputs
      .toSorted((a, b) => byAge(a.service, b.service))
      .slice(0, mostMembers)
      .flatMap((input) => {
        const member = all.find(({ clusterID }) => clusterID === input.service.clusterID);
        return member === undefined ? [] : [memberView(input, member, planFor(member.clusterID))];
      }),
    ...(inputs.length > mostMembers && { moreMembers: inputs.length - mostMembers }),
    copies: all
      .map((member) => copyView(member, ref, planFor(member.clusterID), rules))
      .toSorted((a, b) => (a.clusterID < b.clusterID ? -1 : 1)),
    names: isExported ? noNames : shownNames(ref, key, all, dnsPrefix),
  };
}

const noNames: NamesView = { carried: [], problem: undefined };

function memberView(input: MemberInput, member: SyncedMember, plan: Plan): MemberServiceView {
  const { service, readyPorts } = input;
  const { clusterID, namespace, name, kind } = service;
  const {
    status = 'False',
    reason = '',
    message = '',
  } = plan.outcomes.get(keyOfMember(service)) ?? {};
  return {
    clusterID,
    namespace,
    name,
    kind,
    type: typeOf(service, member),
    isReady: readyPorts.length > 0,
    endpoints: endpointsOf(service, member),
    status,
    reason,
    message,
  };
}

function typeOf(
  { kind, namespace, name, exposure }: MemberService,
  { services }: SyncedMember,
): MemberServiceView['type'] {
  if (kind === 'NativeService') return 'NativeService';
  if (exposure.by === 'machines') return 'VirtualMachines';
  const { type = 'ClusterIP', clusterIP } = services.byKey(`${namespace}/${name}`)?.spec ?? {};
  return type === 'ClusterIP' && clusterIP === 'None' ? 'Headless' : type;
}

function endpointsOf(service: MemberService, member: SyncedMember): number {
  const { exposure } = service;
  const usable = usableOf(member);
  if (hasSlices(exposure)) {
    return sourceSlices(member, service)
      .flatMap(({ endpoints }) => endpoints ?? [])
      .filter(
        ({ addresses: [address = ''], conditions }) =>
          (conditions?.ready ?? true) && usable.has(address),
      ).length;
  }
  const { addresses } = outsideAddresses(service, member, undefined, '');
  const names = exposure.by === 'loadBalancer' ? exposure.hostnames.length : 0;
  return addresses.filter((address) => usable.has(address)).length + names;
}

function copyView(member: SyncedMember, ref: FederatedRef, plan: Plan, rules: CopyRules): CopyView {
  const { clusterID, services, slices } = member;
  const key = rules.serviceOf(ref);
  const live = services.byKey(key);
  const own =
    live !== undefined && rules.isOwn(live)
      ? slices.byIndex('service', key).filter(rules.isOwnSlice)
      : [];
  const from = own.flatMap(({ metadata }) => metadata.labels?.[originKey] ?? []);
  return {
    clusterID,
    endpoints: own
      .flatMap(({ endpoints }) => endpoints ?? [])
      .filter(({ conditions }) => conditions?.ready ?? true).length,
    from: [...new Set(from)].toSorted(),
    ...statusOf(member, ref, plan, live, rules),
  };
}

function statusOf(
  member: SyncedMember,
  ref: FederatedRef,
  plan: Plan,
  live: Service | undefined,
  rules: CopyRules,
): Pick<CopyView, 'status' | 'reason' | 'message'> {
  const { clusterID, isRead, state, namespaces } = member;
  const { namespace } = ref;
  const no = (reason: string, message: string) => ({ status: 'False', reason, message }) as const;
  if (!isRead || state.state !== 'Ready') {
    return { status: 'Unknown', reason: state.reason, message: state.message };
  }
  const wanted = rules.compile(plan, live, undefined);
  if (namespaces.byKey(namespace) === undefined) {
    return no(
      'NoNamespace',
      `${clusterID} has no namespace ${namespace}. Create it to get a copy.`,
    );
  }
  if (wanted === undefined) {
    return no('NoMember', 'No member Service gives this cluster a port.');
  }
  const obstacle = rules.obstacleIn(member, ref);
  if (obstacle !== undefined) return obstacle;
  if (live === undefined) {
    return no('Missing', `The leader of ${clusterID} has not created it yet.`);
  }
  if (!rules.isOwn(live)) {
    return no(
      'CopyConflict',
      `${clusterID} has a Service ${rules.serviceOf(ref)} that is not a copy. Rename that Service, or federate under another name.`,
    );
  }
  if (hasSelector(live)) {
    return no(
      'CopyHasSelector',
      `A user gave the copy a selector, so its endpoints are no longer updated. Remove the selector.`,
    );
  }
  return rules.owned.isSame(wanted, live)
    ? { status: 'True', reason: 'Copied', message: 'The copy is as it should be.' }
    : no('Outdated', `The leader of ${clusterID} has not updated it yet.`);
}
