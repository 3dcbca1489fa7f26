// Computes the status of an object in a marked cluster: that of the object at the site, with the verdict of the
// site. Pure.

import type { Kind } from '../../api/kind.ts';
import type { Condition, JsonObject, Resource } from '../../api/object.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { isRecord } from '../../core/json/is-record.ts';
import { type ConditionUpdate, setCondition } from '../../core/reconcile/conditions.ts';
import { acceptedCondition } from './cluster-side-kind.ts';
import type { ClusterObject } from './read-cluster-object.ts';

/** What the site says about a version of an object. */
export type Verdict = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

export interface StatusInput {
  readonly object: ClusterObject;
  /** TRUST-DOMAIN/CLUSTER. */
  readonly syncedTo: string;
  readonly verdict: Verdict;
  /** At the site. Undefined where it is not there, or did not come from this object. */
  readonly resource: Resource | undefined;
  readonly nowMs: number;
}

interface SiteStatus {
  readonly conditions?: readonly Condition[];
  readonly [field: string]: unknown;
}

export function mirroredStatus(input: StatusInput): JsonObject {
  const { object, resource, verdict, syncedTo, nowMs } = input;
  const { conditions = [], ...fields } = (resource?.status ?? {}) as SiteStatus;
  const others = conditions
    .filter(({ type }) => type !== acceptedCondition)
    .map((condition) => withGeneration(condition, input));
  const known = knownVerdict(object.status);
  const accepted = setCondition(
    known === undefined ? [] : [known],
    {
      type: acceptedCondition,
      ...verdict,
      observedGeneration: object.metadata.generation,
    },
    nowMs,
  );
  return { ...fields, conditions: [...others, ...accepted], syncedTo } as unknown as JsonObject;
}

/**
 * `kubectl wait` compares the generation of a condition with that of the object. The site counts its own
 * generations, so a condition about the current version there gets the generation of the object here, if the site
 * has that version.
 */
function withGeneration(
  { observedGeneration, ...condition }: Condition,
  { object, resource, verdict }: StatusInput,
): Condition {
  if (observedGeneration === undefined) return condition;
  const { generation } = object.metadata;
  const isCurrent =
    verdict.status === 'True' && observedGeneration >= (resource?.metadata.generation ?? 0);
  return { ...condition, observedGeneration: isCurrent ? generation : Math.max(0, generation - 1) };
}

/** The condition that an earlier write left, if it is one. */
function knownVerdict({ conditions }: JsonObject): Condition | undefined {
  if (!Array.isArray(conditions)) return undefined;
  return (conditions as readonly unknown[]).find(
    (condition): condition is Condition =>
      isRecord(condition) &&
      condition['type'] === acceptedCondition &&
      typeof condition['lastTransitionTime'] === 'string',
  );
}

/** Whether the status must be written: `now` without waiting, `later` where only live fields differ. */
export function statusChange(
  kind: Pick<Kind, 'liveStatus'>,
  known: JsonObject,
  wanted: JsonObject,
): 'none' | 'later' | 'now' {
  if (jsonEquals(known, wanted)) return 'none';
  const live = kind.liveStatus ?? [];
  return jsonEquals(without(known, live), without(wanted, live)) ? 'later' : 'now';
}

function without(status: JsonObject, fields: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(status).filter(([name]) => !fields.includes(name)));
}
