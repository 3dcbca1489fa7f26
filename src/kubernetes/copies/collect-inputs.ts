// Collects what all members say about one federated Service, as input for the plan of one target.

import { originKey, unreachableAnnotation } from '../names.ts';
import type { EndpointSlice, Node, Service } from '../objects.ts';
import { mostServiceEndpoints } from '../services/choose-claims.ts';
import type { MemberInput, Outcome } from '../services/compile-plan.ts';
import { tooManyEndpoints } from '../services/explain-limit.ts';
import type { FederatedRef } from '../services/federated-name.ts';
import { mayJoin } from '../services/global-namespaces.ts';
import {
  addressesOfNode,
  keyOfMember,
  type MemberPort,
  type MemberService,
} from '../services/member-service.ts';
import { isSource, parseSourceID, sourceOfSlice } from '../services/slice-source.ts';
import { fateOf, isUnreachablePolicy } from '../services/unreachable.ts';
import type { CopyRules } from './copy-rules.ts';
import type { FoundAddresses, HostNames } from './host-names.ts';
import type { LeftOut } from './origin-usage.ts';
import { factsOf, isReadyFor } from './slice-facts.ts';
import { type SyncedMember, usableOf } from './synced-member.ts';

export interface CollectOptions {
  readonly rules: Pick<CopyRules, 'isKnown' | 'memberServices'>;
  readonly ref: FederatedRef;
  /** `keyOfRef`. */
  readonly key: string;
  /** Undefined: no target. Then each member Service is looked at as in its own cluster. */
  readonly target: SyncedMember | undefined;
  readonly members: readonly SyncedMember[];
  readonly monotonicMs: number;
  /** Undefined: names stay unresolved. */
  readonly names: HostNames | undefined;
  /** What exceeds the limits of a member. */
  readonly leftOutOf: (member: SyncedMember) => LeftOut;
  /** The copy in the target, and its slices, for members that have not been read since the start. */
  readonly live: Service | undefined;
  readonly liveSlices: () => readonly EndpointSlice[];
}

export interface Collected {
  readonly inputs: readonly MemberInput[];
  /** Clusters that have a member Service, or whose slices are held. */
  readonly origins: ReadonlySet<string>;
  /** The members whose slices stay as they are, by cluster, because they have not been read. */
  readonly held: ReadonlyMap<string, MemberInput>;
  /** When the fate of a member changes. */
  readonly nextMs: number | undefined;
  /** Whether a member Service of the target has a load balancer with a name. */
  readonly hasNames: boolean;
  /** Whether the site does not know the members in a cluster that it has read otherwise. */
  readonly isWaiting: boolean;
}

export function collectInputs(options: CollectOptions): Collected {
  const { rules, ref, key, target, members, monotonicMs } = options;
  const inputs: MemberInput[] = [];
  const held = new Map<string, MemberInput>();
  let nextMs: number | undefined;
  let hasNames = false;
  let isWaiting = false;
  const fate = (member: SyncedMember, policy: string | undefined): MemberInput['fate'] => {
    const found = fateOf(member.state, member.settings, policy, monotonicMs);
    if (found.nextMs !== undefined) nextMs = Math.min(nextMs ?? Infinity, found.nextMs);
    return found.fate;
  };
  for (const member of members) {
    if (!member.isRead || !rules.isKnown(member)) {
      isWaiting ||= member.isRead;
      const input = heldInput(options, member, fate(member, undefined));
      if (input === undefined) continue;
      held.set(member.clusterID, input);
      inputs.push(input);
      continue;
    }
    const leftOut = options.leftOutOf(member);
    const isTarget = target === undefined || member.clusterID === target.clusterID;
    for (const service of rules.memberServices(member, ref, key)) {
      const limit = leftOut.services.get(keyOfMember(service));
      // Only its own cluster knows it.
      if (!isTarget && limit !== undefined && limit.what !== 'endpoints') continue;
      hasNames ||= isTarget && limit === undefined && hasHostNames(service);
      inputs.push({
        service,
        fate: fate(member, service.unreachable),
        admittedAt: member.admittedAt,
        settings: member.settings,
        limit,
        readyPorts: isTarget && limit?.what !== 'members' ? readyPorts(service, member) : [],
        // Only the leader of its own cluster tells it.
        ...(isTarget && limit === undefined && findings(service, member, leftOut, options)),
      });
    }
  }
  const origins = new Set(inputs.map(({ service }) => service.clusterID));
  return { inputs, origins, held, nextMs, hasNames, isWaiting };
}

/** The slices of a member Service in its own cluster. */
export function sourceSlices(
  { slices }: Pick<SyncedMember, 'slices'>,
  { namespace, name }: Pick<MemberService, 'namespace' | 'name'>,
): readonly EndpointSlice[] {
  return slices.byIndex('service', `${namespace}/${name}`).filter(isSource);
}

/** In its own cluster a Service is reached by its pods or machines, whatever its type is. */
export function isReachedByPods({ kind, exposure }: MemberService, isLocal: boolean): boolean {
  return kind === 'Service' && (isLocal || hasSlices(exposure));
}

/** Whether slices of its own cluster say how others reach it. */
export function hasSlices({ by }: MemberService['exposure']): boolean {
  return by === 'pods' || by === 'machines';
}

export function hasHostNames({ exposure }: MemberService): boolean {
  return exposure.by === 'loadBalancer' && exposure.hostnames.length > 0;
}

export interface OutsideAddresses extends Partial<Pick<FoundAddresses, 'failed' | 'isPending'>> {
  readonly addresses: readonly string[];
  /** Whether there are more. */
  readonly isCut?: boolean;
}

/** The addresses of a member Service that is not reached by its pods. Names are looked up in the background. */
export function outsideAddresses(
  { exposure, clusterID }: MemberService,
  member: Pick<SyncedMember, 'nodes'>,
  names: HostNames | undefined,
  key: string,
): OutsideAddresses {
  switch (exposure.by) {
    case 'addresses':
      return { addresses: exposure.addresses };
    case 'nodes': {
      const { families } = exposure;
      const nodes = [...member.nodes.objects()];
      const all = nodes.flatMap((node) => addressesOfNode(node, families));
      if (all.length <= mostServiceEndpoints) return { addresses: all };
      const oldest = nodes.toSorted(byCreation).flatMap((node) => addressesOfNode(node, families));
      return { addresses: oldest.slice(0, mostServiceEndpoints), isCut: true };
    }
    case 'loadBalancer': {
      const { addresses, hostnames } = exposure;
      const found =
        hostnames.length === 0 ? undefined : names?.addressesOf(clusterID, hostnames, key);
      return { ...found, addresses: [...addresses, ...(found?.addresses ?? [])] };
    }
    default:
      return { addresses: [] };
  }
}

function byCreation({ metadata: a }: Node, { metadata: b }: Node): number {
  const [one = '', two = ''] = [a.creationTimestamp, b.creationTimestamp];
  return one < two || (one === two && a.name < b.name) ? -1 : 1;
}

/** The ports that have a ready endpoint in its own cluster. A NativeService says nothing of readiness. */
function readyPorts(service: MemberService, member: SyncedMember): readonly MemberPort[] {
  const { exposure, kind, ports } = service;
  if (kind === 'NativeService') {
    return exposure.by === 'addresses' && exposure.addresses.length > 0 ? ports : [];
  }
  const usable = usableOf(member);
  const slices = sourceSlices(member, service);
  return ports.filter((port) => slices.some((slice) => isReadyFor([port], slice, usable)));
}

function findings(
  service: MemberService,
  member: SyncedMember,
  leftOut: LeftOut,
  { names, key }: CollectOptions,
): Pick<MemberInput, 'refused' | 'problem'> {
  const usable = usableOf(member);
  const { unreachable } = service;
  const misread: Outcome | undefined =
    unreachable === undefined || isUnreachablePolicy(unreachable)
      ? undefined
      : {
          status: 'True',
          reason: 'IllegalUnreachablePolicy',
          message: `The annotation ${unreachableAnnotation} must be keep, drain or remove, and may have a number of seconds after it, as in "keep 600". It is ignored.`,
        };
  if (hasSlices(service.exposure)) {
    const refused = sourceSlices(member, service)
      .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
      .map((slice) => factsOf(slice, usable).refusedAddress)
      .find((address) => address !== undefined);
    const isCut = (leftOut.slices.get(keyOfMember(service))?.size ?? 0) > 0;
    return { refused, problem: isCut ? tooManyEndpoints : misread };
  }
  const { addresses, failed, isCut } = outsideAddresses(service, member, names, key);
  const outside = addresses.find((address) => !usable.has(address));
  return {
    refused: outside === undefined ? undefined : describedAddress(service, outside),
    problem:
      isCut === true
        ? tooManyEndpoints
        : failed === undefined
          ? misread
          : unresolved(failed, addresses.length > 0),
  };
}

/** Nodes and the answers of name servers are not for every user of a Service. */
function describedAddress({ exposure }: MemberService, address: string): string {
  if (exposure.by === 'nodes') return 'those of nodes';
  if (exposure.by !== 'loadBalancer' || exposure.addresses.includes(address)) return address;
  return 'those that the host names of its load balancer resolve to';
}

function unresolved(name: string, hasAddresses: boolean): Outcome {
  return {
    status: hasAddresses ? 'True' : 'False',
    reason: 'NameNotResolved',
    message: `The name ${name} of its load balancer cannot be resolved at the moment. Other clusters use the last addresses for at most ten minutes. Check its DNS record.`,
  };
}

/**
 * Stands for a member that has not been read since the start of the site, but has slices in the target. It
 * counts as the oldest member, so that the ports of the copy that it may use stay as they are. Before the
 * first attempt to reach it, these are all.
 */
function heldInput(
  { ref, live, liveSlices }: CollectOptions,
  { clusterID, settings, state }: SyncedMember,
  fate: MemberInput['fate'],
): MemberInput | undefined {
  const slices = liveSlices().filter(
    (slice) =>
      slice.metadata.labels?.[originKey] === clusterID &&
      mayJoin(settings, ref, parseSourceID(sourceOfSlice(slice))?.namespace ?? ''),
  );
  const used = new Set(slices.flatMap(({ ports }) => (ports ?? []).map(({ name = '' }) => name)));
  const ports = (live?.spec.ports ?? [])
    .filter(({ name = '' }) => state.state === 'Connecting' || used.has(name))
    .map(({ name = '', port, protocol = 'TCP', appProtocol }) => ({
      name,
      port,
      protocol,
      appProtocol,
      outside: port,
    }));
  if (ports.length === 0) return undefined;
  return {
    service: {
      clusterID,
      ref,
      kind: 'Service',
      namespace: '',
      name: '',
      createdAt: '',
      exposure: { by: 'addresses', addresses: [] },
      ports,
      unreachable: undefined,
    },
    fate,
    // It stands for Services of several namespaces, whose slices were judged above.
    settings: { ...settings, globalNamespaces: [''] },
    readyPorts: [],
  };
}
