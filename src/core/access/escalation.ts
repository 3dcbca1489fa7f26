// Prevents privilege escalation. The writer of a Role or RoleBinding must already hold every right in
// it, or hold `escalate` on that role or `bind` on the bound role (as in Kubernetes:
// pkg/registry/rbac/clusterrole/policybased).
//
// The commit comes after the check. So the check returns the objects that it relied on (the bound
// role, and the roles and bindings that give the writer its rights) as expectations for the commit.
// If one of them changes in between, the commit fails and the check runs again.

import { group } from '../../api/object.ts';
import { HansaError } from '../errors/error.ts';
import type { RecordExpectation } from '../store/store.ts';
import type { Authorizer } from './authorizer.ts';
import { forbiddenObject } from './denial.ts';
import type { Caller } from './identity.ts';
import {
  bindingsCollection,
  readRoleBindingSpec,
  readRoleSpec,
  rolesCollection,
} from './policy.ts';
import {
  describeSimpleRules,
  maxSimpleRules,
  quoted,
  type Rule,
  tooManyToCompare,
  uncovered,
} from './rules.ts';

/** Lines of missing rights in one denial. */
const maxLines = 32;

/** As much of a resource as the check looks at. */
export interface GrantingObject {
  readonly metadata: {
    readonly name?: string;
    readonly ownerReferences?: unknown;
    readonly finalizers?: unknown;
  };
  readonly spec?: unknown;
}

/**
 * Throws HANSA_FORBIDDEN where the caller may not write `next`, else returns what the commit must
 * expect. For a deletion `next` is undefined: it only needs the right to delete. Other kinds always
 * pass.
 */
export function checkEscalation(
  authorizer: Authorizer,
  caller: Caller,
  kind: string,
  next: GrantingObject | undefined,
  old: GrantingObject | undefined,
): readonly RecordExpectation[] {
  if ((kind !== 'Role' && kind !== 'RoleBinding') || caller.via === 'controller') return [];
  const name = (next ?? old)?.metadata.name ?? '';
  if (authorizer.isPreset(kind, name))
    throw forbiddenObject(
      kind === 'Role' ? rolesCollection : bindingsCollection,
      name,
      'it is a preset, which cannot be changed: choose another name',
    );
  if (next === undefined || onlyReleases(next, old)) return [];
  return kind === 'Role'
    ? checkRole(authorizer, caller, name, readRoleSpec(next.spec).rules)
    : checkBinding(authorizer, caller, name, readRoleBindingSpec(next.spec).role);
}

/**
 * A garbage collector removes owners and finalizers of what it is about to delete, and holds none
 * of the rights. Nothing else may change with it.
 */
function onlyReleases(next: GrantingObject, old: GrantingObject | undefined): boolean {
  if (old === undefined) return false;
  const kept = ({ metadata, ...rest }: GrantingObject): string => {
    const {
      ownerReferences: _owners,
      finalizers: _finalizers,
      ...others
    } = metadata as Record<string, unknown>;
    delete others.managedFields;
    delete others.resourceVersion;
    return JSON.stringify([
      rest.spec,
      Object.entries(others).toSorted(([a], [b]) => (a < b ? -1 : 1)),
    ]);
  };
  return kept(next) === kept(old);
}

function checkRole(
  authorizer: Authorizer,
  caller: Caller,
  name: string,
  rules: readonly Rule[],
): readonly RecordExpectation[] {
  // Kubernetes asks for `escalate` with the name where there is one in the path; a name is known for a create, too.
  if (authorizer.authorize(caller, { verb: 'escalate', plural: rolesCollection, name }).allowed)
    return rightsOf(authorizer, caller);
  confirmHeld(authorizer, caller, rules, rolesCollection, name);
  return rightsOf(authorizer, caller);
}

function checkBinding(
  authorizer: Authorizer,
  caller: Caller,
  name: string,
  roleName: string,
): readonly RecordExpectation[] {
  return checkBind(authorizer, caller, roleName, bindingsCollection, name);
}

/** Checks whether the caller may bind the role. `plural` and `name` name the written object in a denial. */
export function checkBind(
  authorizer: Authorizer,
  caller: Caller,
  roleName: string,
  plural: string,
  name: string,
): readonly RecordExpectation[] {
  if (
    authorizer.authorize(caller, { verb: 'bind', plural: rolesCollection, name: roleName }).allowed
  )
    return rightsOf(authorizer, caller);
  const role = authorizer.policy.role(roleName);
  // Otherwise a caller could bind a role that does not exist yet, and gain its rights when it is created.
  if (role === undefined)
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `${rolesCollection}.${group} ${JSON.stringify(roleName)} not found`,
      { details: { group, kind: rolesCollection, name: roleName } },
    );
  confirmHeld(authorizer, caller, role.rules, plural, name);
  const expectations = rightsOf(authorizer, caller);
  return role.expectation === undefined ? expectations : merge([role.expectation], expectations);
}

/** Throws, in the words of kube-apiserver, where the caller does not hold all of `rules`. */
function confirmHeld(
  authorizer: Authorizer,
  caller: Caller,
  rules: readonly Rule[],
  plural: string,
  name: string,
): void {
  const held = authorizer.rulesFor(caller);
  if (tooManyToCompare(held, rules))
    throw forbiddenObject(
      plural,
      name,
      `its rules have too many combinations of kind, verb, name and subresource (${maxSimpleRules} at most) to compare with your permissions; use "*" or split the role`,
    );
  const missing = uncovered(held, rules);
  if (missing.length === 0) return;
  const lines = describeSimpleRules(missing, group, (kind) => authorizer.pluralOf(kind));
  if (lines.length > maxLines)
    lines.splice(maxLines, lines.length, `and ${lines.length - maxLines} more`);
  throw forbiddenObject(
    plural,
    name,
    `user ${JSON.stringify(caller.user)} (groups=${quoted(caller.groups)}) is attempting to grant RBAC permissions not currently held:\n${lines.join('\n')}`,
  );
}

/** The roles and bindings that give the caller its rights, without presets, which cannot change. */
export function rightsOf(
  authorizer: Pick<Authorizer, 'policy'>,
  caller: Pick<Caller, 'user' | 'groups'>,
): readonly RecordExpectation[] {
  const policy = authorizer.policy;
  const found: RecordExpectation[] = [];
  for (const { binding } of policy.bindingsOf(caller)) {
    const role = policy.role(binding.role);
    if (role === undefined) continue;
    if (binding.expectation !== undefined) found.push(binding.expectation);
    if (role.expectation !== undefined) found.push(role.expectation);
  }
  return merge(found, []);
}

export function merge(
  first: readonly RecordExpectation[],
  second: readonly RecordExpectation[],
): readonly RecordExpectation[] {
  const byKey = new Map<string, RecordExpectation>();
  for (const expectation of [...first, ...second])
    byKey.set(`${expectation.collection}/${expectation.name}`, expectation);
  return [...byKey.values()];
}
