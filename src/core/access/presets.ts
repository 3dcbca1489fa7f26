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

export const presetRoleNames = ['viewer', 'editor', 'approver', 'admin'] as const;
export type PresetRole = (typeof presetRoleNames)[number];

/** Binds the owner of the data folder to `admin`. Built in as well, so that owners cannot lock themselves out. */
export const presetBindingName = 'hansa-admins';

export const presetBindings = [
  {
    name: presetBindingName,
    role: 'admin',
    subjects: [{ kind: 'Group', name: adminsGroup }],
  },
] as const;

const reading = ['get', 'list', 'watch'];

export const presetDescriptions: Readonly<Record<PresetRole, string>> = {
  viewer: 'Reads everything and changes nothing.',
  editor:
    'Reads everything. Creates and changes objects of kinds that grant neither rights nor trust. Deletes nothing.',
  approver: 'Reads everything and decides pending approvals.',
  admin: 'May do everything, including changes to roles, bindings and tokens.',
};

/** Rules that a plane adds to preset roles, for subresources and verbs of its own. `admin` has every right already. */
export type PresetAdditions = Readonly<
  Partial<Record<Exclude<PresetRole, 'admin'>, readonly Rule[]>>
>;

/** Rules for the kinds come from the kinds (`editable`), further ones from the planes. */
export function presetRules(
  kinds: readonly KindName[],
  additions: readonly PresetAdditions[] = [],
): ReadonlyMap<string, readonly Rule[]> {
  const read: Rule = { kinds: [everything], verbs: reading };
  const editable = kinds
    .filter((kind) => kind.editable === true)
    .map((kind) => kind.kind)
    .toSorted();
  const presets: Readonly<Record<PresetRole, readonly Rule[]>> = {
    viewer: [read],
    editor: [
      read,
      ...(editable.length === 0 ? [] : [{ kinds: editable, verbs: ['create', 'update', 'patch'] }]),
    ],
    // The kind Approval does not exist yet, but the role of existing sites has this rule. A user decides
    // an approval by updating it, which also needs the verb `approve`.
    approver: [read, { kinds: ['Approval'], verbs: ['approve', 'update', 'patch'] }],
    admin: [
      { kinds: [everything], verbs: [everything] },
      { kinds: [everything], verbs: [everything], subresources: [everything] },
    ],
  };
  const added = (name: string): readonly Rule[] =>
    name === 'admin' ? [] : additions.flatMap((one) => one[name as keyof PresetAdditions] ?? []);
  return new Map(
    Object.entries(presets).map(([name, rules]) => [name, [...rules, ...added(name)]]),
  );
}

export function isPresetRole(name: string): name is PresetRole {
  return (presetRoleNames as readonly string[]).includes(name);
}
