// Finds changes of roles and bindings that change who may approve. Pure.

import { readRoleBindingSpec, readRoleSpec } from '../access/policy.ts';
import { type Rule, ruleMatchesTarget, ruleNames } from '../access/rules.ts';

const approvalKindName = 'Approval';
export const approveVerb = 'approve';
/** A user decides an Approval by changing it, so deciding needs one of these as well. */
export const changeVerbs = ['patch', 'update'] as const;
const decidingVerbs = [approveVerb, ...changeVerbs];

/** Which Approvals the rules allow the verb for: lists of names, and `undefined` for all. */
function allowedOf(
  rules: readonly Rule[],
  verb: string,
): readonly (readonly string[] | undefined)[] {
  return rules
    .filter((rule) => ruleMatchesTarget(rule, approvalKindName, verb, undefined))
    .map((rule) => ruleNames(rule));
}

export function grantsApproval(rules: readonly Rule[]): boolean {
  return allowedOf(rules, approveVerb).length > 0;
}

/** Another role of the same user may grant the other verbs, so each counts. */
function grantsPartOfDeciding(rules: readonly Rule[]): boolean {
  return decidingVerbs.some((verb) => allowedOf(rules, verb).length > 0);
}

interface WithSpec {
  readonly spec?: unknown;
}

/** `next` is undefined for a deletion. `rulesOf` are the rules of a role, also of presets. */
export function changesApprovers(
  kind: string,
  next: WithSpec | undefined,
  live: WithSpec | undefined,
  rulesOf: (role: string) => readonly Rule[] | undefined,
): boolean {
  if (kind === 'Role') {
    const decidable = (role: WithSpec | undefined) => {
      const rules = role === undefined ? [] : readRoleSpec(role.spec).rules;
      return JSON.stringify(decidingVerbs.map((verb) => allowedOf(rules, verb)));
    };
    return decidable(next) !== decidable(live);
  }
  if (kind !== 'RoleBinding') return false;
  const bound = (binding: WithSpec | undefined) => {
    if (binding === undefined) return '';
    const { role, subjects } = readRoleBindingSpec(binding.spec);
    return grantsPartOfDeciding(rulesOf(role) ?? []) ? JSON.stringify([role, subjects]) : '';
  };
  return bound(next) !== bound(live);
}
