// Decides on every request whether the caller may do what it asks for.
//
// The authorizer holds a policy compiled from the store. On every request it checks whether a
// binding, or a role of the caller, has changed: an O(1) listing and one look-up per role. It uses
// no watch, which could lag behind a commit, so a deleted binding no longer applies to the very
// next request. It caches decisions per caller, kind and verb until the policy changes; a cached
// decision costs a few map look-ups.

import type { Store } from '../store/store.ts';
import { type Caller, controllersGroup, isAuthenticated } from './identity.ts';
import {
  bindingsCollection,
  compilePolicy,
  type Grant,
  type Policy,
  type Role,
  rolesCollection,
} from './policy.ts';
import {
  type KindName,
  type PresetAdditions,
  presetBindings,
  presetRules,
  tokenKind,
} from './presets.ts';
import { everything, type Rule, ruleMatchesTarget, ruleNames, verbs } from './rules.ts';

export interface Attributes {
  readonly verb: string;
  readonly plural: string;
  readonly name?: string;
  readonly subresource?: string;
}

export interface Decision {
  readonly allowed: boolean;
  /** Which binding allows it, in the words of kube-apiserver; empty where nothing does. */
  readonly reason: string;
}

const denied: Decision = { allowed: false, reason: '' };
const allowedToController: Decision = {
  allowed: true,
  reason: 'controllers of the site write status',
};
const allowedToAuthenticated: Decision = {
  allowed: true,
  reason: 'every authenticated caller may discover the API',
};

/** What a caller may do with one verb on one kind or subresource of it. */
interface Permit {
  readonly all: Decision | undefined;
  readonly byName: ReadonlyMap<string, Decision> | undefined;
}

interface CompiledCaller {
  readonly policy: Policy;
  readonly grants: readonly Grant[];
  /** The roles that the caller is bound to. Undefined where a role does not exist (yet). */
  readonly roles: readonly (readonly [name: string, role: Role | undefined])[];
  /** By plural and subresource, then by verb. Only of known kinds and verbs, and of few subresources, so that it stays small. */
  readonly permits: Map<string, Map<string, Permit>>;
  readonly unlimited: Decision | undefined;
}

/** Callers whose compiled rights are kept: each takes a few kilobytes. */
const maxCompiledCallers = 4096;

/** Above the number of kinds and subresources that one caller uses. */
const maxKeptTargets = 64;

/** Paths that show what the API is, not what it holds (as `system:discovery` of Kubernetes). */
export const discoveryPaths: readonly string[] = [
  '/api',
  '/api/*',
  '/apis',
  '/apis/*',
  '/healthz',
  '/livez',
  '/openapi',
  '/openapi/*',
  '/readyz',
  '/version',
  '/version/',
];

const knownVerbs: ReadonlySet<string> = new Set(verbs);

export class Authorizer {
  readonly #store: Pick<Store, 'list' | 'get'>;
  readonly #presets: Parameters<typeof compilePolicy>[0];
  readonly #kindByPlural: ReadonlyMap<string, string>;
  readonly #pluralByKind: ReadonlyMap<string, string>;
  #bindings: unknown;
  #policy: Policy | undefined;
  /** The same caller object comes with every request of a connection: then there is no key to build. */
  #byObject = new WeakMap<Caller, CompiledCaller>();
  #byKey = new Map<string, CompiledCaller>();

  constructor(options: {
    store: Pick<Store, 'list' | 'get'>;
    kinds: readonly KindName[];
    presets?: readonly PresetAdditions[];
  }) {
    const kinds = [...options.kinds, tokenKind];
    this.#store = options.store;
    this.#presets = {
      roles: presetRules(kinds, options.presets),
      bindings: presetBindings(options.presets),
    };
    this.#kindByPlural = new Map(kinds.map(({ kind, plural }) => [plural, kind]));
    this.#pluralByKind = new Map(kinds.map(({ kind, plural }) => [kind, plural]));
  }

  /** The current policy. Immutable: a later change creates a new one. */
  get policy(): Policy {
    const bindings = this.#store.list(bindingsCollection);
    // A listing hands out the same array until the collection changes (see Store.list).
    if (this.#policy === undefined || bindings.entries !== this.#bindings) {
      this.#policy = compilePolicy(
        this.#presets,
        (name) => this.#store.get(rolesCollection, name),
        bindings,
      );
      this.#bindings = bindings.entries;
      this.#byKey.clear();
    }
    return this.#policy;
  }

  /** `name` is that of the object, also for a list or watch whose field selector names one object. */
  authorize(caller: Caller, request: Attributes): Decision {
    const { verb, plural, name } = request;
    let subresource = request.subresource ?? '';
    if (subresource === 'status') {
      // The right to read an object includes its status. Only controllers write status.
      if (verb !== 'get')
        return caller.groups.includes(controllersGroup) ? allowedToController : denied;
      subresource = '';
    }
    const permit = this.#permit(this.#compile(caller), plural, verb, subresource);
    if (permit.all !== undefined) return permit.all;
    if (permit.byName === undefined || name === undefined || name === '') return denied;
    return permit.byName.get(name) ?? denied;
  }

  /** Paths that are not resources. `verb` is the method in lower case. */
  authorizePath(caller: Caller, verb: string, path: string): Decision {
    if (
      isAuthenticated(caller) &&
      (verb === 'get' || verb === 'head') &&
      discoveryPaths.some((known) =>
        known.endsWith('*') ? path.startsWith(known.slice(0, -1)) : path === known,
      )
    )
      return allowedToAuthenticated;
    return this.#compile(caller).unlimited ?? denied;
  }

  /** The rules that apply to the caller, without those that every authenticated caller has. */
  rulesFor(caller: Pick<Caller, 'user' | 'groups'>): readonly Rule[] {
    return this.policy.grantsOf(caller).map((grant) => grant.rule);
  }

  /** Whether the caller may do everything, paths that are not resources included. */
  isUnlimited(caller: Caller): boolean {
    return this.#compile(caller).unlimited !== undefined;
  }

  /** Presets cannot be changed. */
  isPreset(kind: 'Role' | 'RoleBinding', name: string): boolean {
    const { roles, bindings } = this.#presets;
    return kind === 'Role' ? roles.has(name) : bindings.some((one) => one.name === name);
  }

  kindOf(plural: string): string | undefined {
    return this.#kindByPlural.get(plural);
  }

  /** A kind that this site does not have keeps its own name: there is no plural to translate it to. */
  pluralOf(kind: string): string {
    return this.#pluralByKind.get(kind) ?? kind;
  }

  #compile(caller: Caller): CompiledCaller {
    const policy = this.policy;
    const remembered = this.#byObject.get(caller);
    if (remembered !== undefined && isCurrent(remembered, policy)) return remembered;
    const key = JSON.stringify([caller.user, caller.groups]);
    let compiled = this.#byKey.get(key);
    if (compiled === undefined || !isCurrent(compiled, policy)) {
      const grants = policy.grantsOf(caller);
      const unlimited = grants.find(
        ({ rule }) =>
          ruleMatchesTarget(rule, everything, everything, undefined) &&
          ruleNames(rule) === undefined,
      );
      compiled = {
        policy,
        grants,
        roles: rolesOf(policy, caller),
        permits: new Map(),
        unlimited: unlimited && { allowed: true, reason: reasonOf(unlimited) },
      };
      if (this.#byKey.size >= maxCompiledCallers) {
        const oldest = this.#byKey.keys().next();
        if (!oldest.done) this.#byKey.delete(oldest.value);
      }
      this.#byKey.set(key, compiled);
    }
    this.#byObject.set(caller, compiled);
    return compiled;
  }

  #permit(compiled: CompiledCaller, plural: string, verb: string, subresource: string): Permit {
    const target = subresource === '' ? plural : `${plural}/${subresource}`;
    const known = compiled.permits.get(target)?.get(verb);
    if (known !== undefined) return known;
    const permit = permitOf(
      compiled.grants,
      // An unknown plural can only be allowed by `*`; a slash is in no name of a kind.
      this.#kindByPlural.get(plural) ?? (plural === everything ? everything : `/${plural}`),
      verb,
      subresource,
    );
    // Subresources come from the routes of the server, but may be anything in a review.
    const isKept = subresource === '' || compiled.permits.size < maxKeptTargets;
    if (this.#kindByPlural.has(plural) && knownVerbs.has(verb) && isKept) {
      const byVerb = compiled.permits.get(target) ?? new Map<string, Permit>();
      byVerb.set(verb, permit);
      compiled.permits.set(target, byVerb);
    }
    return permit;
  }
}

function rolesOf(policy: Policy, caller: Caller): CompiledCaller['roles'] {
  const names = new Set(policy.bindingsOf(caller).map(({ binding }) => binding.role));
  return [...names].map((name) => [name, policy.role(name)] as const);
}

function isCurrent(compiled: CompiledCaller, policy: Policy): boolean {
  if (compiled.policy !== policy) return false;
  for (const [name, role] of compiled.roles) if (policy.role(name) !== role) return false;
  return true;
}

function permitOf(
  grants: readonly Grant[],
  kind: string,
  verb: string,
  subresource: string,
): Permit {
  let byName: Map<string, Decision> | undefined;
  for (const grant of grants) {
    if (!ruleMatchesTarget(grant.rule, kind, verb, subresource)) continue;
    const decision = { allowed: true, reason: reasonOf(grant) };
    const names = ruleNames(grant.rule);
    if (names === undefined) return { all: decision, byName: undefined };
    byName ??= new Map();
    for (const name of names) if (!byName.has(name)) byName.set(name, decision);
  }
  return { all: undefined, byName };
}

function reasonOf({ binding, role, subject }: Grant): string {
  return `RBAC: allowed by RoleBinding "${binding.name}" of Role "${role.name}" to ${subject.kind} "${subject.name}"`;
}
