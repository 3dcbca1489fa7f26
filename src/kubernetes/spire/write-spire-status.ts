// Writes the status of a SpireServer, if it changed. Fields of others in it stay.

import type { Condition, JsonObject } from '../../api/object.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { type ConditionUpdate, setCondition } from '../../core/reconcile/conditions.ts';
import type { ClusterObject } from '../sync/read-cluster-object.ts';
import type { RelationshipEntry } from '../spire-relationships/relationship-status.ts';
import { serverName, spireSiteAnnotation } from './spire-names.ts';
import type { SpireWatches } from './spire-watches.ts';

export interface StatusWriteOptions {
  readonly client: Pick<KubeClient, 'replace'>;
  /** Of the subresource. */
  readonly path: string;
  readonly object: ClusterObject;
  readonly conditions: readonly ConditionUpdate[];
  /** Undefined: leave them out. */
  readonly relationships: readonly RelationshipEntry[] | undefined;
  readonly nowMs: number;
  readonly mayWrite: () => boolean;
}

/**
 * `pruned`: the CRD has no field for relationships. Rejects with a KubeStatusError 409 where the object changed
 * meanwhile, and HANSA_FENCED where the term is over.
 */
export async function writeSpireStatus(
  options: StatusWriteOptions,
): Promise<'same' | 'written' | 'pruned' | 'gone'> {
  const { client, path, object, relationships, nowMs, mayWrite } = options;
  let conditions = conditionsIn(object);
  for (const update of options.conditions) conditions = setCondition(conditions, update, nowMs);
  const status = {
    ...object.status,
    conditions,
    ...(relationships !== undefined && { relationships }),
  };
  const before = object.status['relationships'] ?? [];
  const isSame =
    jsonEquals(object.status['conditions'], conditions) &&
    (relationships === undefined || jsonEquals(before, relationships));
  if (isSame) return 'same';
  const { apiVersion, kind, metadata, spec } = object;
  const { name, uid, resourceVersion } = metadata;
  const beforeSend = (): void => {
    if (!mayWrite())
      throw new HansaError('HANSA_FENCED', `Cannot write ${path}: the term is over.`);
  };
  beforeSend();
  try {
    const written = await client.replace<KubeObject & { readonly status?: JsonObject }>(
      path,
      { apiVersion, kind, metadata: { name, uid, resourceVersion }, spec, status },
      { beforeSend },
    );
    const isPruned =
      (relationships ?? []).length > 0 && written.status?.['relationships'] === undefined;
    return isPruned ? 'pruned' : 'written';
  } catch (error) {
    if (error instanceof KubeStatusError && error.status === 404) return 'gone';
    throw error;
  }
}

function conditionsIn({ status }: ClusterObject): readonly Condition[] {
  const list = status['conditions'];
  return Array.isArray(list) ? (list as readonly Condition[]) : [];
}

/** Whether another site made the server. Only that site writes the status: two would undo each other's for ever. */
export function isOfOtherSite(
  watches: Pick<SpireWatches, 'cached'>,
  namespace: string,
  site: string,
): boolean {
  const metadata = { name: serverName, namespace };
  const conf = watches.cached({ apiVersion: 'v1', kind: 'ConfigMap', metadata });
  return (conf?.metadata.annotations?.[spireSiteAnnotation] ?? site) !== site;
}

/** The entries of the status as it is, for their times. */
export function knownEntries({ status }: ClusterObject): readonly RelationshipEntry[] {
  const list = status['relationships'];
  return Array.isArray(list) ? (list as readonly RelationshipEntry[]) : [];
}
