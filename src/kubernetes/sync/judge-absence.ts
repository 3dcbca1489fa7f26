// Decides what it means that an object of the site is not in the cluster that it came from. Pure.

import type { OriginSource } from '../../core/access/origin.ts';
import { compareVersions, isResourceVersion } from '../../core/kube/reflector/resource-version.ts';

/** The CRD of a kind in a cluster. */
export type Definition =
  | { readonly state: 'served'; readonly uid: string }
  /** Objects disappear while their CRD is being deleted, and no user deleted them. */
  | { readonly state: 'deleting' }
  | { readonly state: 'missing' };

/**
 * - `deleted`: a user deleted it in the cluster.
 * - `kept`: it is gone for another reason: the CRD was created again, the cluster is another one, or etcd was
 *   restored to an earlier state.
 * - `unknown`: nothing is known as long as the CRD is not served.
 */
export type Absence = 'deleted' | 'kept' | 'unknown';

/** `definition` must be read after the object was found absent. `version` is that of the cache without it. */
export function judgeAbsence(
  source: OriginSource,
  definition: Definition,
  version: string,
): Absence {
  if (definition.state !== 'served') return 'unknown';
  if (definition.uid !== source.definition) return 'kept';
  if (!isResourceVersion(version) || !isResourceVersion(source.version)) return 'kept';
  return compareVersions(version, source.version) < 0 ? 'kept' : 'deleted';
}
