// Asks a site for its cluster set and the state of its members.

import { pathTo } from '../../core/plane/path-to.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { PolicyCounts } from '../policies/view/count-policies.ts';
import { kubernetesPaths } from '../paths.ts';
import { parsePolicyKinds, type PolicyKind } from '../policies/policy-kinds.ts';

/** As the replica that answers sees them. */
export interface LeagueInfo {
  /** The setting kubernetes.namespace. */
  readonly namespace: string;
  /** The name of the Cluster with `local: true`. Undefined: the site has none with an API server. */
  readonly home?: string;
  /** The ID of the home cluster, once its claims were read. */
  readonly homeID?: string;
  /** Whether the home cluster claims to be a supervisor. Only then there are members. */
  readonly supervisor: boolean;
  /** Why there are no members, or why the home cluster cannot be followed now. */
  readonly problem?: string;
  /** As in `Federation`. */
  readonly clusterSet?: string;
  readonly members: readonly MemberInfo[];
  /** The setting kubernetes.policyKinds. Undefined for a site of an earlier version. */
  readonly policyKinds?: string;
  /** Undefined for a site of an earlier version. */
  readonly leaving?: readonly LeavingInfo[];
}

/** A cluster that was removed from Federation and may still have copies. */
export interface LeavingInfo {
  readonly clusterID: string;
  /** RFC 3339. */
  readonly since: string;
  readonly reason: string;
  /** Why, and what to do. */
  readonly message: string;
}

export interface MemberInfo {
  readonly clusterID: string;
  readonly state: 'Connecting' | 'Ready' | 'Unreachable' | 'Refused';
  /** RFC 3339. */
  readonly since: string;
  readonly reason: string;
  readonly message: string;
  /** TRUST-DOMAIN/HOST/PID/UUID of the process that leads it. */
  readonly leader?: string;
  readonly epoch?: number;
  /** Federated policies, as its leader told. Undefined while they are not read, and for a site of an earlier version. */
  readonly policies?: PolicyCounts;
}

/** Undefined for a site of an earlier version. */
export async function servedLeague(client: SiteClient): Promise<LeagueInfo | undefined> {
  try {
    return await leagueInfo(client);
  } catch (error) {
    if (hasCode(error, 'HANSA_NOT_FOUND')) return undefined;
    throw error;
  }
}

export async function leagueInfo(client: SiteClient): Promise<LeagueInfo> {
  return (await client.request({ path: kubernetesPaths.members })).body as LeagueInfo;
}

/** What the site federates. A site of an earlier version federates no policies. */
export const policyKindsOf = ({ policyKinds = '' }: LeagueInfo): readonly PolicyKind[] =>
  parsePolicyKinds(policyKinds);

/** The command removes the copies of a cluster that left, so the site stops to try. */
export async function forgetLeaving(client: SiteClient, id: string): Promise<void> {
  try {
    await client.request({ method: 'DELETE', path: pathTo(kubernetesPaths.leaving, { id }) });
  } catch (error) {
    // A site of an earlier version.
    if (!hasCode(error, 'HANSA_NOT_FOUND')) throw error;
  }
}
