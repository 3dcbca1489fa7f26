// The built-in roles. They always exist and never change: the authorizer takes them from here and
// ignores the store. `preset-objects.ts` copies them to the store so that kubectl shows them.

import { adminsGroup } from './identity.ts';
import { everything, type Rule } from './rules.ts';

/** The properties of a kind that authorization needs. */
export interface KindName {
  readonly kind: string;
  readonly plural: string;
  readonly singleton?: string;
  /** The preset role `editor` may write objects of this kind; see api/kind.ts. */
  readonly editable?: true;
}

/**
 * Rules can name tokens like a kind, but tokens are not resources: they have their own routes, so
 * that no manifest or annotation ever contains one.
 */
export const tokenKind: KindName = { kind: 'Token', plural: 'tokens' };

const baseRoleNames = ['viewer', 'editor', 'approver', 'admin'] as const;
type BaseRole = (typeof baseRoleNames)[number];

/** Binds the owner of the data folder to `admin`. Built in as well, so that owners cannot lock themselves out. */
export const presetBindingName = 'hansa-admins';

export interface PresetBinding {
  readonly name: string;
  readonly role: string;
  readonly subjects: readonly { readonly kind: 'Group'; readonly name: string }[];
}

const adminsBinding: PresetBinding = {
  name: presetBindingName,
  role: 'admin',
  subjects: [{ kind: 'Group', name: adminsGroup }],
};

const reading = ['get', 'list', 'watch'];

const descriptions: Readonly<Record<BaseRole, string>> = {
  viewer: 'Reads everything and changes nothing.',
  editor:
    'Reads everything. Creates and changes objects of kinds that grant neither rights nor trust. Deletes nothing.',
  approver: 'Reads everything and decides pending approvals.',
  admin: 'May do everything, including changes to roles, bindings and tokens.',
};

/** What a plane adds: rules of other preset roles, for subresources and verbs of its own, and preset roles and bindings. `admin` has every right already. */
export interface PresetAdditions
  extends Readonly<Partial<Record<Exclude<BaseRole, 'admin'>, readonly Rule[]>>> {
  readonly roles?: readonly PresetRole[];
  readonly bindings?: readonly PresetBinding[];
}

export interface PresetRole {
  readonly name: string;
  readonly description: string;
  readonly rules: readonly Rule[];
}

/** Rules for the kinds come from the kinds (`editable`), further ones and further roles from the planes. */
export function presetRoles(
  kinds: readonly KindName[],
  additions: readonly PresetAdditions[] = [],
): readonly PresetRole[] {
  const read: Rule = { kinds: [everything], verbs: reading };
  const editable = kinds
    .filter((kind) => kind.editable === true)
    .map((kind) => kind.kind)
    .toSorted();
  const base: Readonly<Record<BaseRole, readonly Rule[]>> = {
    viewer: [read],
    editor: [
      read,
      ...(editable.length === 0 ? [] : [{ kinds: editable, verbs: ['create', 'update', 'patch'] }]),
    ],
    // A user decides an approval by updating it, which also needs the verb `approve`.
    approver: [read, { kinds: ['Approval'], verbs: ['approve', 'update', 'patch'] }],
    admin: [
      { kinds: [everything], verbs: [everything] },
      { kinds: [everything], verbs: [everything], subresources: [everything] },
    ],
  };
  const added = (name: BaseRole): readonly Rule[] =>
    name === 'admin' ? [] : additions.flatMap((one) => one[name] ?? []);
  return [
    ...baseRoleNames.map((name) => ({
      name,
      description: descriptions[name],
      rules: [...base[name], ...added(name)],
    })),
    ...additions.flatMap(({ roles = [] }) => roles),
  ];
}

/** The rules of the preset roles by name. */
export function presetRules(
  kinds: readonly KindName[],
  additions: readonly PresetAdditions[] = [],
): ReadonlyMap<string, readonly Rule[]> {
  return new Map(presetRoles(kinds, additions).map(({ name, rules }) => [name, rules]));
}

export function presetBindings(
  additions: readonly PresetAdditions[] = [],
): readonly PresetBinding[] {
  return [adminsBinding, ...additions.flatMap(({ bindings = [] }) => bindings)];
}
