// Decides whether a peer may use a target of this site now: an offer, a cluster or a service. All
// enforcement points use this pure function: delivery of bundles, ext_authz, the federation API,
// `hansa grant check`, and the offers in heartbeats. It returns the reason for operators of this
// site; callers must not show it to strangers.

import {
  defaultScopes,
  type FederationGrant,
  type GrantScope,
  type GrantTargetType,
  grantScopes,
  grantTargetFields,
} from './kinds/federation-grant.ts';
import type { FederationPeer } from './kinds/federation-peer.ts';
import { Prefix } from './values/prefix.ts';
import { parseTimestamp } from './values/date-time.ts';
import { excerpt } from './values/trust-domain.ts';

/** What a grant names: an object of this site, of one type. Names of different types never match. */
export interface GrantTarget {
  readonly type: GrantTargetType;
  readonly name: string;
}

/**
 * What the caller wants to do: an HTTP method or a scope. `connect` is a connection without methods,
 * which needs one of the scopes.
 */
export type GrantNeed = { readonly method: string } | { readonly scope: GrantScope } | 'connect';

export interface GrantQuestion {
  /** The trust domain of the peer. */
  readonly peer: string;
  /** Which identity of the peer, by its SPIFFE ID. Undefined: does the grant admit any identity of the peer? */
  readonly spiffeID: string | undefined;
  /** Undefined: does the grant cover any target that it names? */
  readonly target: GrantTarget | undefined;
  /** The source address of the connection. Undefined: is there any address from which the call is allowed? */
  readonly sourceAddress: string | undefined;
  readonly need: GrantNeed;
  readonly nowMs: number;
}

/** Why a grant does not cover a call. Later reasons mean that the grant is closer to covering it. */
export type GrantMiss =
  | 'peer'
  | 'none'
  | 'expired'
  | 'trust-domain'
  | 'identity'
  | 'network'
  | 'source'
  | 'scope';

export type GrantDecision =
  | { readonly covered: true; readonly grant: string }
  | {
      readonly covered: false;
      readonly reason: string;
      readonly miss: GrantMiss;
      /** The grant that came closest. */
      readonly grant?: string;
    };

type PeerLike = Pick<FederationPeer, 'spec' | 'status'>;
type GrantLike = Pick<FederationGrant, 'metadata' | 'spec'>;

/** States in which the site trusts a peer. Degraded is one of them: a silent peer keeps its rights. */
const trustedStates: ReadonlySet<string | undefined> = new Set(['active', 'degraded']);

/** Methods that only read (RFC 9110 section 9.2.1). Methods are case-sensitive, and unknown ones may write. */
const readingMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);
/** Methods that a reason may name. With others, a caller could cause a new reason and audit record per call. */
const commonMethods: ReadonlySet<string> = new Set([
  ...readingMethods,
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'CONNECT',
  'TRACE',
]);

const targetTypes = Object.keys(grantTargetFields) as readonly GrantTargetType[];

/** Why the site does not trust the peer. Undefined if it does. */
export function peerDistrust(name: string, peer: PeerLike | undefined): string | undefined {
  if (peer === undefined) return `${name} is not a peer of this site`;
  if (peer.spec.desiredState === 'suspended') return `${name} is suspended`;
  const state = peer.status?.state;
  if (trustedStates.has(state)) return undefined;
  return `${name} is ${state ?? 'not enrolled'}`;
}

/** The scope that a request of this method needs. No scope includes another. */
export function scopeOfMethod(method: string): GrantScope {
  return readingMethods.has(method) ? 'read' : 'write';
}

/** The scopes of a grant that exist. A grant that an older version stored may name others, which grant nothing. */
export function knownScopes(grant: Pick<FederationGrant, 'spec'>): readonly GrantScope[] {
  const scopes: unknown = grant.spec.scopes;
  if (scopes === undefined) return defaultScopes;
  return Array.isArray(scopes) ? grantScopes.filter((scope) => scopes.includes(scope)) : [];
}

/**
 * If several grants cover the call, the result names the first one in the given order. If none
 * does, the reason is that of the closest grant. Linear in the grants and their entries.
 */
export function decideGrant(
  question: GrantQuestion,
  peer: PeerLike | undefined,
  grants: Iterable<GrantLike>,
): GrantDecision {
  const distrust = peerDistrust(question.peer, peer);
  if (distrust !== undefined) return { covered: false, reason: distrust, miss: 'peer' };
  const none = `no grant for ${callerOf(question)}${purposeOf(question)}`;
  let closest: Miss | undefined;
  for (const grant of grants) {
    if (!concerns(question, grant)) continue;
    const miss = missOf(question, grant);
    if (miss === undefined) return { covered: true, grant: grant.metadata.name };
    if (closest === undefined || rank[miss.miss] > rank[closest.miss]) closest = miss;
  }
  if (closest === undefined) return { covered: false, reason: none, miss: 'none' };
  return { covered: false, ...closest, reason: `${none}: ${closest.reason}` };
}

/** The SPIFFE IDs of the peer that a grant admits now, from any address. `*` means all; empty if it admits none. */
export function grantees(grant: GrantLike, nowMs: number): readonly string[] {
  const { nodeInstances, networks, sourceCIDRs } = grant.spec;
  if (isExpired(grant, nowMs) || networks?.unrestricted !== true) return [];
  if (sourceCIDRs?.unrestricted !== true && !isFrom(undefined, sourceCIDRs?.cidrs)) return [];
  if (knownScopes(grant).length === 0) return [];
  return nodeInstances?.unrestricted === true ? ['*'] : (nodeInstances?.ids ?? []);
}

interface Miss {
  readonly miss: GrantMiss;
  readonly reason: string;
  readonly grant: string;
}

const rank: Readonly<Record<GrantMiss, number>> = {
  peer: 0,
  none: 0,
  expired: 1,
  'trust-domain': 2,
  identity: 2,
  network: 3,
  source: 4,
  scope: 5,
};

/** The names of one type that a grant lists. A grant of another version may lack the field. */
export function targetsOf(
  { spec }: Pick<FederationGrant, 'spec'>,
  type: GrantTargetType,
): readonly string[] {
  return spec[grantTargetFields[type]] ?? [];
}

/** A grant that is being deleted concerns nobody, however long its finalizers keep it. */
function concerns({ peer, target }: GrantQuestion, grant: GrantLike): boolean {
  if (grant.spec.peer !== peer || grant.metadata.deletionTimestamp !== undefined) return false;
  if (target !== undefined) return targetsOf(grant, target.type).includes(target.name);
  return targetTypes.some((type) => targetsOf(grant, type).length > 0);
}

/** Undefined if the grant covers the call, otherwise the reason. */
function missOf(question: GrantQuestion, grant: GrantLike): Miss | undefined {
  const { name } = grant.metadata;
  const { nodeInstances, networks, sourceCIDRs } = grant.spec;
  const { peer, spiffeID, sourceAddress, need } = question;
  const miss = (what: GrantMiss, reason: string): Miss => ({ miss: what, reason, grant: name });
  if (isExpired(grant, question.nowMs)) {
    return miss('expired', `grant ${name} expired at ${grant.spec.expiresAt}`);
  }
  // An identity of another trust domain is not the peer's, whatever a grant names.
  const isOfPeer = (id: string): boolean => id.startsWith(`spiffe://${peer}/`);
  if (spiffeID !== undefined && !isOfPeer(spiffeID)) {
    return miss('trust-domain', `it is not of the trust domain ${peer}`);
  }
  const ids = nodeInstances?.ids ?? [];
  const isAdmitted = spiffeID === undefined ? ids.some(isOfPeer) : ids.includes(spiffeID);
  if (nodeInstances?.unrestricted !== true && !isAdmitted) {
    return miss('identity', `grant ${name} does not name this identity`);
  }
  if (networks?.unrestricted !== true) {
    return miss(
      'network',
      `grant ${name} is limited to networks, and this site has none yet: only networks: {unrestricted: true} matches`,
    );
  }
  if (sourceCIDRs?.unrestricted !== true && !isFrom(sourceAddress, sourceCIDRs?.cidrs)) {
    return miss('source', `grant ${name} does not cover calls from ${sourceOf(sourceAddress)}`);
  }
  const scopes = knownScopes(grant);
  if (scopes.length === 0) {
    return miss('scope', `grant ${name} has none of the scopes ${grantScopes.join(', ')}`);
  }
  if (need === 'connect' || scopes.includes(scopeOf(need))) return undefined;
  return miss(
    'scope',
    `${needOf(need)} needs the scope ${scopeOf(need)}, and grant ${name} has ${scopes.join(' and ')}`,
  );
}

function scopeOf(need: Exclude<GrantNeed, 'connect'>): GrantScope {
  return 'scope' in need ? need.scope : scopeOfMethod(need.method);
}

function needOf(need: Exclude<GrantNeed, 'connect'>): string {
  if ('scope' in need) return 'it';
  return commonMethods.has(need.method) ? need.method : 'its method';
}

function callerOf({ spiffeID, peer }: GrantQuestion): string {
  return spiffeID ?? `any identity of ${peer}`;
}

function purposeOf({ target }: GrantQuestion): string {
  if (target === undefined) return '';
  // Offers are what most grants name, so they need no word of their own.
  return ` to use ${target.type === 'offer' ? '' : `the ${target.type} `}${target.name}`;
}

function sourceOf(address: string | undefined): string {
  if (address === undefined) return 'any address';
  return address === '' ? 'an address that is not known' : excerpt(address);
}

function isExpired(grant: GrantLike, nowMs: number): boolean {
  const { expiresAt } = grant.spec;
  if (expiresAt === undefined) return false;
  const moment = parseTimestamp(expiresAt);
  return moment === undefined || nowMs >= moment;
}

function isFrom(address: string | undefined, cidrs: readonly string[] | undefined): boolean {
  const ranges = (cidrs ?? []).filter((cidr) => Prefix.problem(cidr) === undefined);
  if (address === undefined) return ranges.length > 0;
  return ranges.some((cidr) => Prefix.parse(cidr).contains(address));
}
