// Decides for one federated Service and one target cluster which members its copy there leads to, and
// what every member is told. All supervisors come to the same plan from the same objects.

import type { MemberSettings } from '../members/member.ts';
import type { FederatedRef } from './federated-name.ts';
import {
  type AgreedPort,
  agreePorts,
  byAge,
  mostPorts,
  type PortConflict,
  type PortMapping,
} from './agree-ports.ts';
import type { ReachedLimit } from './choose-claims.ts';
import { explainLimit } from './explain-limit.ts';
import { mayJoin } from './global-namespaces.ts';
import { keyOfMember, type MemberPort, type MemberService } from './member-service.ts';
import {
  byPlace,
  noTenancy,
  noTenures,
  placesOf,
  type Tenancy,
  tenureOf,
  type Tenures,
} from './tenures.ts';
import type { Fate } from './unreachable.ts';

export interface MemberInput {
  readonly service: MemberService;
  readonly fate: Fate['fate'];
  /** When its cluster was admitted. RFC 3339. */
  readonly admittedAt?: string | undefined;
  readonly settings: Pick<MemberSettings, 'routable' | 'endpointPrefixes' | 'globalNamespaces'>;
  /** Those of its ports that have a ready endpoint in its own cluster. */
  readonly readyPorts: readonly MemberPort[];
  /**
   * Which of its addresses other members do not get, where there are any. Users of the Service read it, so
   * it names only addresses that they can read in their own objects.
   */
  readonly refused?: string | undefined;
  /** The limit of its cluster that leaves it out, where there is one. */
  readonly limit?: ReachedLimit | undefined;
  /** Something else that its users should know, where there is nothing worse. */
  readonly problem?: Outcome | undefined;
}

export interface Participant {
  readonly service: MemberService;
  readonly ports: readonly PortMapping[];
  readonly isDraining: boolean;
  /** In its own cluster its pods are used, whatever its type is. */
  readonly isLocal: boolean;
}

/** For the condition of a member Service. */
export interface Outcome {
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
}

export interface Plan {
  readonly ref: FederatedRef;
  readonly target: string;
  /** Empty if there is no member: then there is no copy. */
  readonly ports: readonly AgreedPort[];
  readonly participants: ReadonlyMap<string, Participant>;
  /** Those that count for the ports. The first one decides. */
  readonly voters: readonly MemberService[];
  /** To record on the copy. Empty: it keeps its record. */
  readonly tenures: Tenures;
  /** Whether a cluster that is new could not be recorded yet. */
  readonly isProvisional: boolean;
  /** By member, for all of them. */
  readonly outcomes: ReadonlyMap<string, Outcome>;
}

/** `prefersLocal`: with a ready member in the target, only the endpoints of its members are used. */
export function compilePlan(
  ref: FederatedRef,
  target: string,
  inputs: readonly MemberInput[],
  prefersLocal = true,
  tenancy: Tenancy = noTenancy,
): Plan {
  const present = inputs.filter(({ fate }) => fate !== 'remove');
  const isLocal = ({ service }: MemberInput): boolean => service.clusterID === target;
  const voters = present.filter((input) => isVoter(input, isLocal(input)));
  const places = placesOf(
    voters.map(({ service, admittedAt }) => ({ ...service, admittedAt })),
    tenancy,
  );
  const order = inPlaces(places);
  const { ports, mappings, conflicts } = agreePorts(
    voters.map(({ service }) => service),
    order,
  );
  const ready = voters.filter(
    (input) =>
      isLocal(input) &&
      // A port that lost a conflict leads nowhere.
      mappings.get(keyOfMember(input.service))?.some(({ own }) => input.readyPorts.includes(own)),
  );
  const local = prefersLocal ? ready : voters.filter(isLocal);
  const others = voters.filter((input) => !isLocal(input) && obstacle(input) === undefined);
  const chosen = prefersLocal && ready.length > 0 ? ready : [...local, ...others];
  return {
    ref,
    target,
    ports,
    participants: new Map(
      chosen.flatMap((input) => {
        const { service, fate } = input;
        const key = keyOfMember(service);
        const own = mappings.get(key);
        if (own === undefined) return [];
        const participant = {
          service,
          ports: own,
          isDraining: fate === 'drain',
          isLocal: isLocal(input),
        };
        return [[key, participant] as const];
      }),
    ),
    voters: voters.map(({ service }) => service).toSorted(order),
    ...recordOf(voters, places, tenancy),
    outcomes: new Map(
      inputs
        .toSorted((a, b) => byAge(a.service, b.service))
        .map((input) => {
          const key = keyOfMember(input.service);
          return [key, outcomeOf(input, mappings.get(key) ?? [], conflicts.get(key) ?? [])];
        }),
    ),
  };
}

type Ordered = Parameters<typeof byAge>[0];

/** A cluster that this site has not read comes first, so that what its endpoints use stays. */
function inPlaces(places: Tenures): (a: Ordered, b: Ordered) => number {
  const order = byPlace(places);
  return (a, b) =>
    Number(a.createdAt !== '') - Number(b.createdAt !== '') || order(a, b) || byAge(a, b);
}

function recordOf(
  voters: readonly MemberInput[],
  places: Tenures,
  tenancy: Tenancy,
): Pick<Plan, 'tenures' | 'isProvisional'> {
  const isNew = ({ service: { clusterID } }: MemberInput): boolean =>
    tenureOf(clusterID, tenancy) === undefined;
  if (tenancy.nowMs === undefined) return { tenures: noTenures, isProvisional: voters.some(isNew) };
  const unread = new Set(
    voters
      .filter((input) => input.service.createdAt === '' && isNew(input))
      .map(({ service }) => service.clusterID),
  );
  const tenures = new Map([...places].filter(([clusterID]) => !unread.has(clusterID)));
  return { tenures, isProvisional: false };
}

/**
 * Whether it counts for the ports of the copy, and so for whether there is one. A cluster without endpoint
 * prefixes, or with too many federated Services, counts in itself only: it must not make other clusters write
 * anything.
 */
export function isVoter(
  { service: { exposure, ref, namespace }, settings, limit }: MemberInput,
  isLocal: boolean,
): boolean {
  if (exposure.by === 'nothing' && exposure.reason === 'ExternalName') return false;
  if (!mayJoin(settings, ref, namespace) || limit?.what === 'members') return false;
  if (!isLocal && limit?.what === 'services') return false;
  return isLocal || (settings.endpointPrefixes ?? []).length > 0;
}

/** Why other clusters cannot use it at all. */
function obstacle({ service, settings, limit }: MemberInput): Outcome | undefined {
  const { exposure, clusterID, ref, namespace } = service;
  const no = (reason: string, message: string): Outcome => ({ status: 'False', reason, message });
  if (!mayJoin(settings, ref, namespace)) {
    return no(
      'NamespaceNotAllowed',
      `Federation does not list the namespace ${namespace} in globalNamespaces of ${clusterID}, so its Services take no part in global federated Services. Add it there, or use an annotation for a namespaced one.`,
    );
  }
  if (exposure.by === 'nothing') {
    return exposure.reason === 'ExternalName'
      ? no('ExternalName', 'Services of type ExternalName have no endpoints and are left out.')
      : no('NoLoadBalancer', 'The load balancer has no address yet. The cloud provider sets it.');
  }
  if (exposure.by === 'pods' && !settings.routable) {
    return no(
      'NotRoutable',
      `Other clusters do not reach the pods of ${clusterID}. Set routable for it in Federation if they do, or use external IPs, a node port or a load balancer.`,
    );
  }
  if ((settings.endpointPrefixes ?? []).length === 0) {
    return no(
      'NoEndpointPrefixes',
      `Federation has no endpointPrefixes for ${clusterID}, so other clusters get none of its addresses. Add the ranges of its endpoints.`,
    );
  }
  return limit && explainLimit(limit, clusterID);
}

function outcomeOf(
  input: MemberInput,
  mappings: readonly PortMapping[],
  conflicts: readonly PortConflict[],
): Outcome {
  const blocked = obstacle(input);
  if (blocked !== undefined) return blocked;
  const clash = conflicts.map(conflictText).join(' ');
  if (mappings.length === 0 && conflicts.length > 0) {
    return { status: 'False', reason: 'PortConflict', message: clash };
  }
  if (mappings.length === 0) {
    return { status: 'False', reason: 'NoPorts', message: 'It has no ports. Add one.' };
  }
  if (conflicts.length > 0) return { status: 'True', reason: 'PortConflict', message: clash };
  const { refused, problem } = input;
  if (problem !== undefined) return problem;
  if (refused !== undefined) {
    const message = `Addresses outside the endpointPrefixes of its cluster are left out, such as ${refused}. Add their range to Federation if they belong to the cluster.`;
    return { status: 'True', reason: 'AddressesLeftOut', message };
  }
  return { status: 'True', reason: 'Federated', message: 'Other clusters reach it.' };
}

export function conflictText({ port, taken }: PortConflict): string {
  const own = `${port.port}/${port.protocol}`;
  const name = port.name === '' ? 'without a name' : JSON.stringify(port.name);
  if (taken === undefined) {
    return `The port ${name} (${own}) is left out: members before it have ${mostPorts} other ports, which is the limit. Use another Service for it.`;
  }
  const { winner, agreed } = taken;
  return `The port ${name} is ${own} here and ${agreed.port}/${agreed.protocol} in ${winner}, which comes first. It is left out.`;
}
