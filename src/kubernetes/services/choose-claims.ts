// Decides what of one cluster other clusters get, where it claims more than its limits. Every supervisor comes
// to the same result from the same objects: the oldest come first, and what is younger never displaces them.

import { byAge } from './agree-ports.ts';
import { keyOfMember, type MemberService } from './member-service.ts';

/** What a cluster may make a site write into other clusters. */
export interface OriginLimits {
  /** Federated Services that it has member Services of. Each is a copy in every other cluster. */
  readonly services: number;
  /** Endpoints of all its member Services together. */
  readonly endpoints: number;
}

/** Where `Federation` has none for a cluster. */
export const defaultLimits: OriginLimits = { services: 1000, endpoints: 50_000 };

/** Member Services of one federated Service in one cluster. One is usual. */
export const mostMemberServices = 16;

/** Endpoints of one member Service. With more, kube-proxy needs seconds for a change. */
export const mostServiceEndpoints = 20_000;

/** A slice counts as so many endpoints at least, because an object has a cost of its own. */
export const leastSliceCost = 10;

/** A member Service that asks for a place. */
export interface Claim
  extends Pick<MemberService, 'clusterID' | 'kind' | 'namespace' | 'name' | 'createdAt'> {
  /** `keyOfRef`. */
  readonly federated: string;
  /** In endpoints. */
  readonly cost: number;
}

/**
 * Why a member Service is left out. `services`: other clusters do not know it. `members`: no cluster does.
 * `endpoints`: it has no endpoints in other clusters, but counts for ports and copies, so that a copy does not
 * come and go with the number of endpoints.
 */
export interface ReachedLimit {
  readonly what: 'services' | 'members' | 'endpoints';
  readonly most: number;
}

/** Those that are left out, by `keyOfMember`. All claims are of one cluster. */
export function chooseClaims(
  claims: readonly Claim[],
  limits: OriginLimits,
): ReadonlyMap<string, ReachedLimit> {
  const leftOut = new Map<string, ReachedLimit>();
  /** Member Services by federated Service. */
  const used = new Map<string, number>();
  let endpoints = 0;
  for (const claim of claims.toSorted(byAge)) {
    const { federated, cost } = claim;
    const members = used.get(federated) ?? 0;
    const leaveOut = (what: ReachedLimit['what'], most: number): void =>
      void leftOut.set(keyOfMember(claim), { what, most });
    if (members === 0 && used.size >= limits.services) leaveOut('services', limits.services);
    else if (members >= mostMemberServices) leaveOut('members', mostMemberServices);
    else {
      used.set(federated, members + 1);
      if (endpoints + cost > limits.endpoints) leaveOut('endpoints', limits.endpoints);
      else endpoints += cost;
    }
  }
  return leftOut;
}

/** A slice of a member Service that asks for a place. */
export interface SliceClaim {
  readonly name: string;
  /** RFC 3339. */
  readonly createdAt: string;
  readonly cost: number;
}

export function costOfSlice(endpoints: number): number {
  return endpoints === 0 ? 0 : Math.max(leastSliceCost, endpoints);
}

/** The names of those that are left out. All are of one member Service. */
export function chooseSlices(slices: readonly SliceClaim[]): ReadonlySet<string> {
  const leftOut = new Set<string>();
  let endpoints = 0;
  const sorted = slices.toSorted((a, b) =>
    a.createdAt === b.createdAt ? compare(a.name, b.name) : compare(a.createdAt, b.createdAt),
  );
  for (const { name, cost } of sorted) {
    if (endpoints + cost > mostServiceEndpoints) leftOut.add(name);
    else endpoints += cost;
  }
  return leftOut;
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
