// The built-in roles. They always exist and always mean the same: the authorizer takes them from
// here, whatever the store says, and `preset-objects.ts` keeps their image in the store so that
// kubectl shows them.

import { adminsGroup } from './identity.ts';
import { everything, type Rule } from './rules.ts';

/** What access needs to know of a kind. */
export interface KindName {
  readonly kind: string;
  readonly plural: string;
  readonly singleton?: string;
  /** The preset role `editor` may write objects of this kind; see api/kind.ts. */
  readonly editable?: true;
}

/**
 * Guarded like a kind, with rules that name it, but not a resource: tokens are served by routes of
 * their own, so that no manifest or annotation ever holds one.
 */
export const tokenKind: KindName = { kind: 'Token', plural: 'tokens' };

export const presetRoleNames = ['viewer', 'editor', 'approver', 'admin'] as const;
export type PresetRole = (typeof presetRoleNames)[number];

/** Binds the owner of the data folder to `admin`. Built in as well, so that nobody locks themselves out. */
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
    'Reads everything. Creates and changes objects of the kinds that its second rule lists: none of them decides about rights or trust. Deletes nothing.',
  approver: 'Reads everything and approves what waits for approval.',
  admin: 'Does everything, roles, bindings and tokens included.',
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
    // Approval is to be a kind of the core, which this role was made for: existing sites hold the rule.
    // An approval is decided by changing it, which the verb `approve` guards in addition.
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
