// RBAC rules as pure functions: what a rule allows, and whether one set of rules covers another. The
// semantics are those of Kubernetes RBAC, with kinds instead of API groups and resources: rules only
// add, `*` includes everything that may exist later, and absent `names` mean every object.

export interface Rule {
  /** Kinds such as `Site`, or `*`. */
  readonly kinds: readonly string[];
  readonly verbs: readonly string[];
  /** Only these objects. Such a rule never allows what has no name: create, and list or watch of all. */
  readonly names?: readonly string[];
  /** Only these subresources of the kinds, or `*`; without it, the kinds themselves. */
  readonly subresources?: readonly string[];
}

export const verbs = [
  'get',
  'list',
  'watch',
  'create',
  'update',
  'patch',
  'delete',
  'deletecollection',
  'approve',
  'bind',
  'escalate',
] as const;

export type Verb = (typeof verbs)[number];

export interface Action {
  readonly verb: string;
  readonly kind: string;
  readonly name?: string;
  readonly subresource?: string;
}

export const everything = '*';

function holds(list: readonly string[], value: string): boolean {
  return list.includes(value) || list.includes(everything);
}

/** An empty list of names or subresources says the same as none: the API treats both alike. */
function given(list: readonly string[] | undefined): list is readonly string[] {
  return list !== undefined && list.length > 0;
}

export function ruleMatchesTarget(
  rule: Rule,
  kind: string,
  verb: string,
  subresource: string | undefined,
): boolean {
  if (!holds(rule.verbs, verb) || !holds(rule.kinds, kind)) return false;
  return subresource === undefined || subresource === ''
    ? !given(rule.subresources)
    : given(rule.subresources) && holds(rule.subresources, subresource);
}

/** What a rule means. The authorizer and `uncovered` compute the same for many at once. */
export function ruleAllows(rule: Rule, action: Action): boolean {
  if (!ruleMatchesTarget(rule, action.kind, action.verb, action.subresource)) return false;
  if (!given(rule.names)) return true;
  return action.name !== undefined && action.name !== '' && rule.names.includes(action.name);
}

/** The names that the rule is limited to; undefined where it is not. */
export function ruleNames(rule: Rule): readonly string[] | undefined {
  return given(rule.names) ? rule.names : undefined;
}

/** A rule of one kind, one verb, at most one name and at most one subresource. */
export interface SimpleRule {
  readonly kind: string;
  readonly verb: string;
  readonly name?: string;
  readonly subresource?: string;
}

/**
 * A rule expands to the product of its lists, which a hostile author can make huge. The site compares
 * at most this many, so that the check does not block other requests.
 */
export const maxSimpleRules = 10_000;
/** Limit on comparisons with held rules and their names: this many take 10 ms, or 80 ms with long lists. */
const maxLooks = 500_000;

function countSimple(rule: Rule): number {
  return (
    rule.kinds.length *
    rule.verbs.length *
    Math.max(1, rule.names?.length ?? 0) *
    Math.max(1, rule.subresources?.length ?? 0)
  );
}

/** Whether `uncovered` would take too long. */
export function tooManyToCompare(held: readonly Rule[], wanted: readonly Rule[]): boolean {
  let simple = 0;
  for (const rule of wanted) simple += countSimple(rule);
  if (simple > maxSimpleRules) return true;
  const targets = new Set(wanted.flatMap((rule) => [...simpleRules(rule)].map(targetOf)));
  let looks = 0;
  for (const rule of held) looks += 1 + (rule.names?.length ?? 0);
  return targets.size * looks > maxLooks;
}

/** A simple rule without its name. */
function targetOf({ kind, verb, subresource }: SimpleRule): string {
  return JSON.stringify([kind, verb, subresource]);
}

function* simpleRules(rule: Rule): Generator<SimpleRule> {
  const names = given(rule.names) ? new Set(rule.names) : [undefined];
  const subresources = given(rule.subresources) ? new Set(rule.subresources) : [undefined];
  for (const kind of new Set(rule.kinds))
    for (const subresource of subresources)
      for (const name of names)
        for (const verb of new Set(rule.verbs))
          yield {
            kind,
            verb,
            ...(name === undefined ? {} : { name }),
            ...(subresource === undefined ? {} : { subresource }),
          };
}

/**
 * What `wanted` allows and `held` does not. Exact: a simple rule is allowed whole by a single rule
 * or not at all, since `*` also means kinds, verbs and names that no list can name. Looks at every
 * held rule once for each kind, verb and subresource that is wanted.
 */
export function uncovered(held: readonly Rule[], wanted: readonly Rule[]): SimpleRule[] {
  const missing: SimpleRule[] = [];
  const allowed = new Map<string, AllowedNames>();
  for (const rule of wanted) {
    for (const simple of simpleRules(rule)) {
      const { kind, verb, name, subresource } = simple;
      const target = targetOf(simple);
      let names = allowed.get(target);
      if (names === undefined) {
        // A wildcard is only matched by a wildcard, since no kind or verb is called `*`.
        names = allowedNames(held, kind, verb, subresource);
        allowed.set(target, names);
      }
      if (names === everything || (name !== undefined && names.has(name))) continue;
      missing.push(simple);
    }
  }
  return missing;
}

/** The names of the objects that a set of rules covers. */
type AllowedNames = typeof everything | ReadonlySet<string>;

function allowedNames(
  held: readonly Rule[],
  kind: string,
  verb: string,
  subresource: string | undefined,
): AllowedNames {
  const allowed = new Set<string>();
  for (const rule of held) {
    if (!ruleMatchesTarget(rule, kind, verb, subresource)) continue;
    if (!given(rule.names)) return everything;
    for (const name of rule.names) allowed.add(name);
  }
  allowed.delete('');
  return allowed;
}

export function covers(held: readonly Rule[], wanted: readonly Rule[]): boolean {
  return uncovered(held, wanted).length === 0;
}

/** Missing rights as kube-apiserver prints them: one line per resource and name, with all its verbs. */
export function describeSimpleRules(
  simple: readonly SimpleRule[],
  group: string,
  pluralOf: (kind: string) => string,
): string[] {
  const grouped = new Map<
    string,
    { resource: string; name: string | undefined; verbs: string[] }
  >();
  for (const rule of simple) {
    const plural = pluralOf(rule.kind);
    const resource = rule.subresource === undefined ? plural : `${plural}/${rule.subresource}`;
    const key = JSON.stringify([resource, rule.name]);
    const known = grouped.get(key);
    if (known) known.verbs.push(rule.verb);
    else grouped.set(key, { resource, name: rule.name, verbs: [rule.verb] });
  }
  return [...grouped.values()]
    .map(({ resource, name, verbs: missing }) => {
      const parts = [`APIGroups:${quoted([group])}`, `Resources:${quoted([resource])}`];
      if (name !== undefined) parts.push(`ResourceNames:${quoted([name])}`);
      parts.push(`Verbs:${quoted(missing)}`);
      return `{${parts.join(', ')}}`;
    })
    .toSorted();
}

/** Go's `%q` of a list of strings. */
export function quoted(values: readonly string[]): string {
  return `[${values.map((value) => JSON.stringify(value)).join(' ')}]`;
}
