// Finds what sites wrote into a cluster for federated policies: replicas, which they created, and their marks on
// policies of users.

import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
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
}

export const policyMarks = [
  epochAnnotation,
  deletingAnnotation,
  versionAnnotation,
  replicaAnnotation,
] as const;

type Listed = KubeObject & { readonly metadata: ObjectMeta };

export async function findReplicas(
  kube: Pick<KubeClient, 'list'>,
  kinds: readonly PolicyKind[],
): Promise<Replicas> {
  const all: FoundPolicy[] = [];
  for (const kind of kinds) {
    for (const object of await listed(kube, allOfKind(kind))) {
      const { namespace = '', name, annotations = {} } = object.metadata;
      if (!policyMarks.some((key) => annotations[key] !== undefined)) continue;
      all.push({ ...object, path: pathOfPolicy(kind, namespace, name) });
    }
  }
  const isReplica = ({ metadata: { annotations = {} } }: FoundPolicy): boolean =>
    isFederated(annotations) && annotations[replicaAnnotation] !== undefined;
  return { replicas: all.filter(isReplica), marked: all.filter((each) => !isReplica(each)) };
}

export const findRecords = (kube: Pick<KubeClient, 'list'>): Promise<readonly Listed[]> =>
  listed(kube, recordsPath);

/** A kind that is not served, or that the caller has no rights to, has none of ours. */
async function listed(kube: Pick<KubeClient, 'list'>, path: string): Promise<readonly Listed[]> {
  try {
    return await kube.list<Listed>(path);
  } catch (error) {
    if (error instanceof KubeStatusError && [403, 404].includes(error.status)) return [];
    throw error;
  }
}
