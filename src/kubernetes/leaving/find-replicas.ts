// Finds what sites wrote into a cluster for federated policies: replicas, which they created, and their marks on
// policies of users.

import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { type Listed, listServed } from '../../core/kube/list-served.ts';
import {
  deletingAnnotation,
  epochAnnotation,
  replicaAnnotation,
  versionAnnotation,
} from '../names.ts';
import type { ObjectMeta } from '../objects.ts';
import { isFederated } from '../policies/policy-content.ts';
import { allOfKind, pathOfPolicy, type PolicyKind } from '../policies/policy-kinds.ts';
import { recordsPath } from '../policies/policy-records.ts';

export interface FoundPolicy extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly path: string;
}

export interface Replicas {
  /** Policies that a site created and users have not taken over. */
  readonly replicas: readonly FoundPolicy[];
  /** Policies of users with marks of sites. */
  readonly marked: readonly FoundPolicy[];
  /** Not all kinds could be read. */
  readonly forbidden: Listed<unknown>['forbidden'];
}

export const policyMarks = [
  epochAnnotation,
  deletingAnnotation,
  versionAnnotation,
  replicaAnnotation,
] as const;

type Found = KubeObject & { readonly metadata: ObjectMeta };

export async function findReplicas(
  kube: Pick<KubeClient, 'list' | 'request'>,
  kinds: readonly PolicyKind[],
): Promise<Replicas> {
  const all: FoundPolicy[] = [];
  let forbidden: Replicas['forbidden'];
  for (const kind of kinds) {
    const listed = await listServed<Found>(kube, allOfKind(kind));
    forbidden ??= listed.forbidden;
    for (const object of listed.items) {
      const { namespace = '', name, annotations = {} } = object.metadata;
      if (!policyMarks.some((key) => annotations[key] !== undefined)) continue;
      all.push({ ...object, path: pathOfPolicy(kind, namespace, name) });
    }
  }
  const isReplica = ({ metadata: { annotations = {} } }: FoundPolicy): boolean =>
    isFederated(annotations) && annotations[replicaAnnotation] !== undefined;
  const marked = all.filter((each) => !isReplica(each));
  return { replicas: all.filter(isReplica), marked, forbidden };
}

/** Rejects where the cluster serves them and the caller may not list them. */
export async function findRecords(
  kube: Pick<KubeClient, 'list' | 'request'>,
): Promise<readonly Found[]> {
  const { items, forbidden } = await listServed<Found>(kube, recordsPath);
  if (forbidden !== undefined) throw forbidden;
  return items;
}
