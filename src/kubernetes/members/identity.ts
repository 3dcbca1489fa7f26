// What a cluster says about itself in its claims, and whether that is the member that `Federation` means. Pure.

import { type ClusterClaim, claimKeys } from '../../api/kinds/cluster-claim.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { supervisorClaims } from '../names.ts';
import { recordIn, textIn } from './field-values.ts';

export type ReflectedClaim = KubeObject & Pick<ClusterClaim, 'spec'>;

/** A claim with fields of other types claims nothing. */
export function readClaim(object: ReflectedClaim): ReflectedClaim {
  const { apiVersion, kind, metadata } = object;
  const { name, value } = recordIn((object as { readonly spec?: unknown }).spec);
  return {
    apiVersion,
    kind,
    metadata: { name: metadata.name },
    spec: { name: textIn(name) ?? '', value: textIn(value) ?? '' },
  };
}

/** Several objects can carry the same key. Each different value counts. */
export interface ClusterIdentity {
  readonly ids: readonly string[];
  readonly clusterSets: readonly string[];
  /** System namespaces of sites. */
  readonly namespaces: readonly string[];
  readonly isSupervisor: boolean;
}

export function identityOf(claims: Iterable<Pick<ReflectedClaim, 'spec'>>): ClusterIdentity {
  const ids = new Set<string>();
  const clusterSets = new Set<string>();
  const namespaces = new Set<string>();
  let isSupervisor = false;
  for (const { spec } of claims) {
    const { name, value } = spec;
    if (name === claimKeys.id) ids.add(value);
    if (name === claimKeys.clusterSet) clusterSets.add(value);
    if (name === claimKeys.namespace) namespaces.add(value);
    if (supervisorClaims.includes(name) && value === 'true') isSupervisor = true;
  }
  return {
    ids: [...ids].toSorted(),
    clusterSets: [...clusterSets].toSorted(),
    namespaces: [...namespaces].toSorted(),
    isSupervisor,
  };
}

/** Why something is in its state: one word, and a sentence with what to do. */
export interface Finding {
  readonly reason: string;
  readonly message: string;
}

export const idMissing = 'ClusterIDMissing';
const idMismatch = 'ClusterIDMismatch';

export interface ExpectedIdentity {
  readonly clusterID: string;
  readonly clusterSet: string;
  /** The system namespace of this site, if it is to lead the cluster. */
  readonly namespace?: string;
}

/** `ownSet` is the cluster set in the `Federation` of the cluster itself, where it has one. */
export function identityProblem(
  { clusterID, clusterSet, namespace }: ExpectedIdentity,
  { ids, clusterSets, namespaces }: ClusterIdentity,
  ownSet: string | undefined,
): Finding | undefined {
  const [id, ...otherIDs] = ids;
  if (id === undefined) {
    return {
      reason: idMissing,
      message: `The cluster has no ClusterClaim ${claimKeys.id}. Create one there with the value ${clusterID}, or run: hansa cluster join ${clusterID}`,
    };
  }
  if (otherIDs.length > 0) {
    return {
      reason: 'ClusterIDAmbiguous',
      message: `The cluster has several claims ${claimKeys.id} with different values, such as ${quoted(id)} and ${quoted(otherIDs[0] as string)}. Delete all of them but one there.`,
    };
  }
  if (id !== clusterID) {
    return {
      reason: idMismatch,
      message: `The cluster says that its ID is ${quoted(id)}. Correct the server of ${clusterID} in Federation, or the claim ${claimKeys.id} in the cluster.`,
    };
  }
  const wrong = [...clusterSets, ...(ownSet === undefined ? [] : [ownSet])].find(
    (each) => each !== clusterSet,
  );
  if (wrong !== undefined) {
    return {
      reason: 'ClusterSetMismatch',
      message: `The cluster belongs to the cluster set ${quoted(wrong)}, and Federation here is for ${quoted(clusterSet)}. Remove it from Federation here, or correct its claim ${claimKeys.clusterSet} and its Federation.`,
    };
  }
  const other = namespaces.find((each) => each !== namespace);
  if (namespace === undefined || other === undefined) return undefined;
  // Sites with different ones would hold two Leases in the cluster, and delete the global copies of each other.
  return {
    reason: 'NamespaceMismatch',
    message: `The sites that lead the cluster have the system namespace ${quoted(other)}, and this site has ${quoted(namespace)}. Start this site with --kubernetes-namespace ${excerpt(other)}, or correct the claim ${claimKeys.namespace} in the cluster.`,
  };
}

/**
 * The members that share a server with one, in the order of Federation, and whether each is the cluster there, as
 * far as is known.
 */
export interface Rival {
  readonly clusterID: string;
  readonly fits: boolean;
}

/**
 * Of several members with one server, the ID of the cluster decides which entry is right, so that a wrong entry
 * takes no other member down. A cluster that has the ID of each who asks is the first one in the list.
 */
export function rivalProblem(
  clusterID: string,
  problem: Finding | undefined,
  rivals: readonly Rival[],
): Finding | undefined {
  if (problem !== undefined && problem.reason !== idMismatch) return problem;
  const winner = rivals.find((each) => each.fits);
  if (winner === undefined || winner.clusterID === clusterID) return problem;
  return {
    reason: 'DuplicateServer',
    message: `${winner.clusterID} has the same server in Federation, and the cluster there is ${winner.clusterID}. Correct the server of ${clusterID}.`,
  };
}

const quoted = (text: string): string => JSON.stringify(excerpt(text));
