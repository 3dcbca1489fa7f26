// The compiled RBAC policy of a site at one moment: roles by name and bindings by subject, from the
// presets and the store.

import { recordReader } from '../store/reader.ts';
import type { Entry, RecordExpectation, Listing } from '../store/store.ts';
import { type Caller, tokenUser } from './identity.ts';
import type { PresetBinding } from './presets.ts';
import type { Rule } from './rules.ts';

export const rolesCollection = 'roles';
export const bindingsCollection = 'rolebindings';

export interface Subject {
  readonly kind: 'User' | 'Group' | 'Token';
  readonly name: string;
}

export interface RoleSpec {
  readonly rules: readonly Rule[];
}

export interface RoleBindingSpec {
  readonly role: string;
  readonly subjects: readonly Subject[];
}

export interface Role {
  readonly name: string;
  readonly rules: readonly Rule[];
  /** Undefined for presets, which no change of the store can touch. */
  readonly expectation: RecordExpectation | undefined;
}

export interface Binding {
  readonly name: string;
  readonly role: string;
  readonly subjects: readonly Subject[];
  readonly expectation: RecordExpectation | undefined;
}

/** A rule that applies to a caller, and the binding that grants it. */
export interface Grant {
  readonly rule: Rule;
  readonly binding: Binding;
  readonly role: Role;
  readonly subject: Subject;
}

/** Bindings as of one moment; roles as of the moment of the question. */
export interface Policy {
  /** The same value for as long as the role does not change. */
  role(name: string): Role | undefined;
  /** In order of the bindings' names, presets first. */
  bindingsOf(caller: Pick<Caller, 'user' | 'groups'>): readonly Bound[];
  grantsOf(caller: Pick<Caller, 'user' | 'groups'>): readonly Grant[];
}

/** A binding under the key of one of its subjects, made once for all policies that it is part of. */
interface Indexed {
  readonly key: string;
  readonly bound: Bound;
}

interface Bound {
  readonly binding: Binding;
  readonly subject: Subject;
}

function indexed(binding: Binding): readonly Indexed[] {
  return binding.subjects.map((subject) => ({
    key: subjectKey(subject),
    bound: { binding, subject },
  }));
}

function subjectKey(subject: Subject): string {
  // A token is the user `token:NAME`: the two ways to name it must reach the same bindings.
  return subject.kind === 'Group' ? `group ${subject.name}` : `user ${subjectUser(subject)}`;
}

function subjectUser(subject: Subject): string {
  return subject.kind === 'Token' ? tokenUser(subject.name) : subject.name;
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function optionalStrings(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? strings(value) : undefined;
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function emptied(raw: unknown, kept: readonly string[] | undefined): boolean {
  return Array.isArray(raw) && raw.length > 0 && kept?.length === 0;
}

/**
 * Reads the `spec` of a Role. Objects were validated before they were stored, so this only has to
 * be safe: values that it does not understand grant nothing. It drops unknown items but keeps the
 * list, because a list of names without valid items must not become "all names".
 */
export function readRoleSpec(spec: unknown): RoleSpec {
  const rules = fields(spec).rules;
  if (!Array.isArray(rules)) return { rules: [] };
  return {
    rules: rules.flatMap((item: unknown): Rule[] => {
      const { kinds, verbs, names, subresources } = fields(item);
      const narrowed = {
        names: optionalStrings(names),
        subresources: optionalStrings(subresources),
      };
      if (emptied(names, narrowed.names) || emptied(subresources, narrowed.subresources)) return [];
      return [
        {
          kinds: strings(kinds),
          verbs: strings(verbs),
          ...(narrowed.names === undefined ? {} : { names: narrowed.names }),
          ...(narrowed.subresources === undefined ? {} : { subresources: narrowed.subresources }),
        },
      ];
    }),
  };
}

export function readRoleBindingSpec(spec: unknown): RoleBindingSpec {
  const { role, subjects } = fields(spec);
  return {
    role: typeof role === 'string' ? role : '',
    subjects: (Array.isArray(subjects) ? subjects : []).flatMap((item: unknown): Subject[] => {
      const { kind, name } = fields(item);
      return (kind === 'User' || kind === 'Group' || kind === 'Token') && typeof name === 'string'
        ? [{ kind, name }]
        : [];
    }),
  };
}

function expectationOf(entry: Entry): RecordExpectation {
  return { collection: entry.collection, name: entry.name, at: entry.revision };
}

const storedRoles = recordReader<{ readonly spec?: unknown }>(rolesCollection).derive(
  ({ spec }, entry): Role => ({
    name: entry.name,
    rules: readRoleSpec(spec).rules,
    expectation: expectationOf(entry),
  }),
);

const storedBindings = recordReader<{ readonly spec?: unknown }>(bindingsCollection).derive(
  ({ spec }, entry) =>
    indexed({
      name: entry.name,
      ...readRoleBindingSpec(spec),
      expectation: expectationOf(entry),
    }),
);

/**
 * O(subjects of bindings), and only after a binding changed; entries that did not change are not
 * parsed again. Roles are looked up on demand, so a role without bindings costs nothing.
 */
export function compilePolicy(
  presets: {
    readonly roles: ReadonlyMap<string, readonly Rule[]>;
    readonly bindings: readonly PresetBinding[];
  },
  roles: (name: string) => Entry | undefined,
  bindings: Pick<Listing, 'entries'>,
): Policy {
  const presetRoles = new Map(
    [...presets.roles].map(([name, rules]): [string, Role] => [
      name,
      { name, rules, expectation: undefined },
    ]),
  );
  // Presets first: their copies in the store are for display only.
  const roleNamed = (name: string): Role | undefined => {
    const preset = presetRoles.get(name);
    if (preset !== undefined) return preset;
    const entry = roles(name);
    return entry && storedRoles.of(entry);
  };

  const bySubject = new Map<string, Bound[]>();
  const add = (found: readonly Indexed[]): void => {
    for (const { key, bound } of found) {
      const known = bySubject.get(key);
      if (known) known.push(bound);
      else bySubject.set(key, [bound]);
    }
  };
  const builtIn = new Set<string>(presets.bindings.map((binding) => binding.name));
  for (const binding of presets.bindings) add(indexed({ ...binding, expectation: undefined }));
  for (const entry of bindings.entries) if (!builtIn.has(entry.name)) add(storedBindings.of(entry));

  const bindingsOf: Policy['bindingsOf'] = (caller) => {
    const found = [...(bySubject.get(`user ${caller.user}`) ?? [])];
    for (const group of caller.groups) found.push(...(bySubject.get(`group ${group}`) ?? []));
    return found;
  };
  return {
    role: roleNamed,
    bindingsOf,
    grantsOf: (caller) =>
      bindingsOf(caller).flatMap(({ binding, subject }) => {
        const role = roleNamed(binding.role);
        return role === undefined
          ? []
          : role.rules.map((rule) => ({ rule, binding, role, subject }));
      }),
  };
}
