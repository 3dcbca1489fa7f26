// Parses the goals of `hansa wait --for`, and decides whether an object meets one. Pure.

import type { Condition, Resource } from '../../api/object.ts';
import { compileTemplate, type Template } from '../output/jsonpath.ts';
import { usageError } from '../../core/command/usage-error.ts';

export type Goal =
  | { readonly goal: 'delete' }
  | { readonly goal: 'create' }
  | { readonly goal: 'condition'; readonly type: string; readonly status: string }
  | { readonly goal: 'jsonpath'; readonly template: Template; readonly value: string | undefined };

const accepted = 'condition=TYPE[=STATUS], jsonpath={.path}[=VALUE], create or delete';

export function parseGoal(text: string): Goal {
  if (text === 'delete' || text === 'create') return { goal: text };
  const condition = /^condition=([A-Za-z][\w.-]*)(?:=(\w+))?$/.exec(text);
  if (condition !== null) {
    const [, type = '', status = 'True'] = condition;
    return { goal: 'condition', type, status };
  }
  // The value begins after the closing brace of the template, which can contain `==` in a filter.
  const path = /^jsonpath=(\{.*\}|[^={]+)(?:=(.*))?$/.exec(text);
  if (path !== null) {
    const [, template = '', value] = path;
    return { goal: 'jsonpath', template: compileTemplate(template), value };
  }
  throw usageError(`--for is ${JSON.stringify(text)}: expected ${accepted}.`);
}

/** `object` is undefined if it does not exist. */
export function isMet(goal: Goal, object: Resource | undefined): boolean {
  if (goal.goal === 'delete') return object === undefined;
  if (object === undefined) return false;
  if (goal.goal === 'create') return true;
  if (goal.goal === 'jsonpath') {
    const shown = goal.template(object);
    return goal.value === undefined ? shown !== '' : shown === goal.value;
  }
  const condition = conditionsOf(object).find(
    ({ type }) => type.toLowerCase() === goal.type.toLowerCase(),
  );
  // A condition of an older generation does not describe the current spec.
  const current =
    condition?.observedGeneration === undefined ||
    condition.observedGeneration >= object.metadata.generation;
  return current && condition?.status.toLowerCase() === goal.status.toLowerCase();
}

export function conditionsOf(object: Resource): readonly Condition[] {
  const status = object.status as { readonly conditions?: readonly Condition[] } | undefined;
  return status?.conditions ?? [];
}

/** The state of the object, for the error after a timeout. */
export function describeState(goal: Goal, object: Resource | undefined): string {
  if (object === undefined) return 'there is no such object';
  if (goal.goal === 'delete') {
    const finalizers = object.metadata.finalizers ?? [];
    return finalizers.length === 0
      ? 'it still exists'
      : `its finalizers are not done: ${finalizers.join(', ')}`;
  }
  if (goal.goal === 'jsonpath') return `the value is ${JSON.stringify(goal.template(object))}`;
  if (goal.goal === 'create') return 'it exists';
  const condition = conditionsOf(object).find(({ type }) => type === goal.type);
  if (condition === undefined) return `it has no condition ${goal.type}`;
  return `${condition.type} is ${condition.status} (${condition.reason}): ${condition.message}`;
}
