// The addresses that a DNS name leads to: those of ready member Services that can be reached from outside of
// their clusters. A ClusterIP cannot, and pods only where a cluster is routable.

import type { MemberInput, Plan } from '../services/compile-plan.ts';
import { keyOfMember, type MemberService } from '../services/member-service.ts';
import type { EndpointSlice } from '../objects.ts';
import { familyOf, type UsableAddresses } from '../services/usable-address.ts';
import { hasSlices, outsideAddresses, sourceSlices } from '../copies/collect-inputs.ts';
import type { HostNames } from '../copies/host-names.ts';
import type { LeftOut } from '../copies/origin-usage.ts';
import { isReadyFor } from '../copies/slice-facts.ts';
import { type SyncedMember, usableOf } from '../copies/synced-member.ts';

/** An answer with more records is too long for many resolvers. */
export const mostTargets = 16;

export interface NameTargets {
  /** Sorted. */
  readonly addresses: readonly string[];
  /** Whether the name of a load balancer has not been looked up yet. */
  readonly isPending: boolean;
}

export interface TargetOptions {
  readonly key: string;
  /** For no target: without local affinity. */
  readonly plan: Plan;
  readonly inputs: readonly MemberInput[];
  readonly members: readonly SyncedMember[];
  readonly names: HostNames | undefined;
  readonly leftOutOf: (member: SyncedMember) => LeftOut;
  /** What the copy leads to now, for members that have not been read since the start of the site. */
  readonly current: readonly string[];
  readonly held: readonly SyncedMember[];
}

export function nameTargets(options: TargetOptions): NameTargets {
  const { key, plan, inputs, members, names, leftOutOf, current, held } = options;
  let isPending = false;
  const unknown = [...held];
  const lists = inputs.flatMap(({ service, readyPorts }) => {
    const participant = plan.participants.get(keyOfMember(service));
    const member = members.find(({ clusterID }) => clusterID === service.clusterID);
    if (participant === undefined || participant.isDraining || member === undefined) return [];
    if (readyPorts.length === 0) return [];
    if (hasSlices(service.exposure)) return [slicedAddresses(service, member, leftOutOf(member))];
    const found = outsideAddresses(service, member, names, key);
    if (found.isPending === true) {
      isPending = true;
      unknown.push(member);
    }
    const usable = usableOf(member);
    return [smallest(found.addresses.filter((address) => isTarget(address, usable)))];
  });
  const kept = current.filter((address) => unknown.some((member) => usableOf(member).has(address)));
  return { addresses: fairly([...lists, kept]), isPending };
}

const isTarget = (address: string, usable: UsableAddresses): boolean =>
  familyOf(address) !== undefined && usable.has(address);

const smallest = (addresses: readonly string[]): readonly string[] =>
  [...new Set(addresses)].toSorted().slice(0, mostTargets);

/** Each member gives its first address before one gives its second. */
function fairly(lists: readonly (readonly string[])[]): readonly string[] {
  const chosen = new Set<string>();
  for (let at = 0; at < mostTargets; at++) {
    for (const list of lists) {
      const address = list[at];
      if (address !== undefined && chosen.size < mostTargets) chosen.add(address);
    }
  }
  return [...chosen].toSorted();
}

function slicedAddresses(
  service: MemberService,
  member: SyncedMember,
  { slices }: LeftOut,
): readonly string[] {
  const usable = usableOf(member);
  const leftOut = slices.get(keyOfMember(service));
  return smallest(
    sourceSlices(member, service)
      .filter(
        (slice) =>
          leftOut?.has(slice.metadata.name) !== true && isReadyFor(service.ports, slice, usable),
      )
      .flatMap((slice) => readyAddresses(slice, usable)),
  );
}

const known = new WeakMap<UsableAddresses, WeakMap<EndpointSlice, readonly string[]>>();

/** Of one slice, computed once: a change of one endpoint costs no look at the other slices. */
export function readyAddresses(slice: EndpointSlice, usable: UsableAddresses): readonly string[] {
  let bySlice = known.get(usable);
  if (bySlice === undefined) known.set(usable, (bySlice = new WeakMap()));
  let found = bySlice.get(slice);
  if (found === undefined) {
    found = smallest(
      (slice.endpoints ?? []).flatMap(({ addresses: [address], conditions }) =>
        address !== undefined && (conditions?.ready ?? true) && isTarget(address, usable)
          ? address
          : [],
      ),
    );
    bySlice.set(slice, found);
  }
  return found;
}
