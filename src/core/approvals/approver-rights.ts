// Finds changes of roles and bindings that change who may approve. Pure.

import { readRoleBindingSpec, readRoleSpec } from '../access/policy.ts';
import { type Rule, ruleMatchesTarget, ruleNames } from '../access/rules.ts';

const approvalKindName = 'Approval';
export const approveVerb = 'approve';

/** Which Approvals the rules allow to approve: lists of names, and `undefined` for all. */
function approvableOf(rules: readonly Rule[]): readonly (readonly string[] | undefined)[] {
  return rules
    .filter((rule) => ruleMatchesTarget(rule, approvalKindName, approveVerb, undefined))
    .map((rule) => ruleNames(rule));
}

export function grantsApproval(rules: readonly Rule[]): boolean {
  return approvableOf(rules).length > 0;
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
    const approvable = (role: WithSpec | undefined) =>
      JSON.stringify(role === undefined ? [] : approvableOf(readRoleSpec(role.spec).rules));
    return approvable(next) !== approvable(live);
  }
  if (kind !== 'RoleBinding') return false;
  const bound = (binding: WithSpec | undefined) => {
    if (binding === undefined) return '';
    const { role, subjects } = readRoleBindingSpec(binding.spec);
    return grantsApproval(rulesOf(role) ?? []) ? JSON.stringify([role, subjects]) : '';
  };
  return bound(next) !== bound(live);
}
