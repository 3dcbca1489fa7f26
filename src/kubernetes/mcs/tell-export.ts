// Tells a ServiceExport of the target in its status what became of it. The cache holds only a part of it, so it is
// read before its status is written.

import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import { bounded } from '../copies/sync-conditions.ts';
import { asConflict } from '../copies/sync-term.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import { termManager } from '../names.ts';
import type { Condition } from '../objects.ts';
import type { ImportWrites } from './apply-import.ts';
import { exportConditions, type ExportOutcomes } from './export-conditions.ts';
import { exportPath, type ServiceExport } from './mcs-objects.ts';

/** Between two writes for one export, so that a flapping Service does not become a flood of writes. */
const pauseMs = 1000;

/** Returns after how long it must be called again, if at all. */
export async function tellExport(
  { term, mcs, context, pace }: ImportWrites,
  key: string,
  outcomes: ExportOutcomes,
): Promise<number | undefined> {
  const { clock } = term.options;
  const cached = mcs.exports.live(key);
  if (cached === undefined) mcs.toldMs.delete(key);
  if (cached === undefined || isTold(cached, outcomes)) return undefined;
  const nowMs = clock.monotonic();
  const readyMs = (mcs.toldMs.get(key) ?? nowMs - pauseMs) + pauseMs;
  if (readyMs > nowMs) return readyMs - nowMs;
  pace();
  context.signal.throwIfAborted();
  const path = exportPath(cached.metadata);
  try {
    const fresh = await term.client.get<ServiceExport>(path);
    // It is another one, and the watch will say so.
    if (fresh.metadata.uid !== cached.metadata.uid || isTold(fresh, outcomes)) return undefined;
    if (isOfAnother(fresh)) return undefined;
    mcs.toldMs.set(key, nowMs);
    const conditions = conditionsWith(fresh.status?.conditions ?? [], outcomes, clock.now());
    const changed = { ...fresh, status: { ...fresh.status, conditions } };
    const written = await writerOf(term.client, context).replaceStatus(path, changed);
    mcs.exports.wrote(key, written, fresh);
    return undefined;
  } catch (error) {
    mcs.exports.forget(key);
    // It was deleted meanwhile.
    if (error instanceof KubeStatusError && error.status === 404) return undefined;
    throw asConflict(error);
  }
}

interface ManagedFields {
  readonly manager?: string;
  readonly fieldsV1?: { readonly 'f:status'?: { readonly 'f:conditions'?: unknown } };
}

/** Whether another program serves this API here and writes the conditions: two would overwrite each other for ever. */
function isOfAnother({ metadata }: ServiceExport): boolean {
  const { managedFields = [] } = metadata as { readonly managedFields?: readonly ManagedFields[] };
  return managedFields.some(
    ({ manager = '', fieldsV1 }) =>
      !manager.startsWith(termManager) && fieldsV1?.['f:status']?.['f:conditions'] !== undefined,
  );
}

function isTold({ status }: ServiceExport, outcomes: ExportOutcomes): boolean {
  return exportConditions.every((type) => {
    const found = findCondition(status?.conditions, type);
    const wanted = outcomes[type];
    return (
      found?.status === wanted.status &&
      found.reason === wanted.reason &&
      found.message === bounded(wanted.message)
    );
  });
}

function conditionsWith(
  conditions: readonly Condition[],
  outcomes: ExportOutcomes,
  nowMs: number,
): readonly Condition[] {
  return exportConditions.reduce<readonly Condition[]>(
    (told, type) =>
      setCondition(
        told,
        { ...outcomes[type], type, message: bounded(outcomes[type].message) },
        nowMs,
      ),
    conditions,
  );
}
