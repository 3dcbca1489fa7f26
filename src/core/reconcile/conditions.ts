// Kubernetes conditions, with which controllers report their findings in a status. Pure.

import type { Condition } from '../../api/object.ts';

export type ConditionUpdate = Omit<Condition, 'lastTransitionTime'>;

/**
 * The conditions with this one set. `lastTransitionTime` moves only when `status` does. If
 * nothing changes, returns the same array, so that the caller knows whether to write.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  update: ConditionUpdate,
  nowMs: number,
): readonly Condition[] {
  const current = conditions ?? [];
  const at = current.findIndex(({ type }) => type === update.type);
  const known = current[at];
  const moved = known === undefined || known.status !== update.status;
  const next: Condition = {
    ...update,
    lastTransitionTime: moved ? conditionTime(nowMs) : known.lastTransitionTime,
  };
  if (known === undefined) return [...current, next];
  const same =
    !moved &&
    known.reason === next.reason &&
    known.message === next.message &&
    known.observedGeneration === next.observedGeneration;
  return same && conditions !== undefined ? conditions : current.with(at, next);
}

export function findCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Whether the condition is True, and for this generation of the object if one is given. */
export function isConditionTrue(
  conditions: readonly Condition[] | undefined,
  type: string,
  generation?: number,
): boolean {
  const condition = findCondition(conditions, type);
  return (
    condition?.status === 'True' &&
    (generation === undefined || (condition.observedGeneration ?? generation) >= generation)
  );
}

/** metav1.Time: whole seconds in UTC. */
export function conditionTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
