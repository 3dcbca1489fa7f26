// Lists a collection that a cluster may not serve, such as one of a CRD. A cluster without it has no objects, and one
// whose objects the caller may not see has perhaps some.

import { isRecord } from '../json/is-record.ts';
import { parseBoundedJson } from '../json/strict-json.ts';
import type { CollectionPath, KubeClient, KubeObject } from './kube-client.ts';
import { KubeStatusError } from './kube-errors.ts';

export interface Listed<T> {
  readonly items: readonly T[];
  /** The caller lacks the right to list the collection, and the cluster serves it. */
  readonly forbidden: KubeStatusError | undefined;
}

/** Of the whole cluster: `path` has no namespace. Rejects as `KubeClient.list` for all but 403 and 404. */
export async function listServed<T extends KubeObject>(
  kube: Pick<KubeClient, 'list' | 'request'>,
  path: CollectionPath,
): Promise<Listed<T>> {
  try {
    return { items: await kube.list<T>(path), forbidden: undefined };
  } catch (error) {
    if (!(error instanceof KubeStatusError)) throw error;
    if (error.status === 404) return { items: [], forbidden: undefined };
    if (error.status !== 403) throw error;
    // RBAC refuses what is not served too.
    const isServed = await serves(kube, path);
    return { items: [], forbidden: isServed ? error : undefined };
  }
}

/** True also where the caller may not see what the cluster serves. */
async function serves(kube: Pick<KubeClient, 'request'>, path: CollectionPath): Promise<boolean> {
  const end = path.lastIndexOf('/');
  const { status, body } = await kube.request({ method: 'GET', path: path.slice(0, end) });
  if (status === 404) return false;
  if (status !== 200) return true;
  const list = parseBoundedJson(body);
  const resources = isRecord(list) ? list['resources'] : undefined;
  if (!Array.isArray(resources)) return true;
  return resources.some((each) => isRecord(each) && each['name'] === path.slice(end + 1));
}
