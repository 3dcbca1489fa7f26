// An index of entries by selector. The time to find the entries of a process depends on the number of
// its selectors, not on the number of entries. Pure.

import type { ResourceOf } from '../../../api/kind.ts';
import type { workloadEntryKind } from '../../../api/kinds/workload-entry.ts';
import {
  type LabelSelector,
  labelSelectorText,
  parseLabelSelector,
} from '../../../api/selectors/label-selector.ts';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { toHansaError } from '../../../core/errors/error.ts';
import { defaultJwtTtlSeconds } from '../../../core/identity/jwt/sign-svid.ts';
import type { FederationState } from '../../authorization/federation-state.ts';

export type WorkloadEntry = ResourceOf<typeof workloadEntryKind>;

/** An entry whose identity this site may issue. Only `usableEntry` creates it. */
export interface UsableEntry {
  readonly name: string;
  readonly uid: string;
  readonly id: SpiffeId;
  readonly selectors: readonly string[];
  readonly federatesWith: readonly string[];
  /** Over the labels of federations; in addition to those that are named. */
  readonly federatesWithSelector: LabelSelector | undefined;
  readonly ttlSeconds: number;
  readonly jwtTtlSeconds: number;
  readonly dnsNames: readonly string[];
  /** As its operator gave it. */
  readonly hint: string | undefined;
}

/** Why an entry is unusable: a reason for programs, and a message for people. */
export interface EntryProblem {
  readonly reason:
    | 'InvalidID'
    | 'ForeignTrustDomain'
    | 'ReservedPath'
    | 'NeverMatches'
    | 'InvalidSelector'
    | 'InvalidAgents';
  readonly message: string;
}

const hashType = 'unix:sha256:';
/**
 * Types of selectors of which a process has one at most; an entry stands in the index under the
 * first of these that it has, as many entries share a user and fewer share a program.
 */
const singleTypes = [
  'unix:path:',
  hashType,
  'cgroup:',
  'systemd:id:',
  'unix:uid:',
  'unix:user:',
  'unix:gid:',
  'unix:group:',
] as const;

/**
 * `siteNames` are the DNS names of the site itself, which no SVID of a workload gets: an entry may be
 * older than the name.
 */
export function usableEntry(
  entry: WorkloadEntry,
  trustDomain: TrustDomain,
  siteNames: readonly string[] = [],
): { readonly entry: UsableEntry } | { readonly problem: EntryProblem } {
  const { spiffeID, selectors, federatesWith, ttlSeconds } = entry.spec;
  let id: SpiffeId;
  try {
    id = SpiffeId.parse(spiffeID);
  } catch (error) {
    return { problem: { reason: 'InvalidID', message: toHansaError(error).message } };
  }
  if (!id.memberOf(trustDomain)) {
    return {
      problem: {
        reason: 'ForeignTrustDomain',
        message: `${spiffeID} belongs to another trust domain: this site issues only identities of ${trustDomain.name}.`,
      },
    };
  }
  if (id.isReserved || id.path === '') {
    return {
      problem: {
        reason: 'ReservedPath',
        message: `A workload cannot have ${spiffeID}: /hansa and everything below it is reserved, and an identity needs a path.`,
      },
    };
  }
  const types = selectors.flatMap((selector) => singleTypes.filter((t) => selector.startsWith(t)));
  if (selectors.length === 0 || new Set(types).size < types.length) {
    return {
      problem: {
        reason: 'NeverMatches',
        message:
          'No process can match all of these selectors: a process has only one user, group, path, SHA-256, systemd unit and control group.',
      },
    };
  }
  let federatesWithSelector: LabelSelector | undefined;
  try {
    federatesWithSelector = selectorOf(entry.spec.federatesWithSelector);
  } catch (error) {
    return { problem: { reason: 'InvalidSelector', message: toHansaError(error).message } };
  }
  try {
    labelSelectorText(entry.spec.agents?.selector ?? {});
  } catch (error) {
    return { problem: { reason: 'InvalidAgents', message: toHansaError(error).message } };
  }
  const { name, uid } = entry.metadata;
  const { hint, dnsNames = [], jwtTtlSeconds = defaultJwtTtlSeconds } = entry.spec;
  return {
    entry: {
      name,
      uid,
      id,
      selectors,
      federatesWith,
      federatesWithSelector,
      ttlSeconds,
      jwtTtlSeconds,
      dnsNames: dnsNames.filter((wanted) => !isNameOfSite(wanted, siteNames)),
      hint: hint === '' ? undefined : hint,
    },
  };
}

/**
 * A name of the site that begins with a dot means the domain and everything below it.
 * RFC 6125 §6.4.3: `*` matches only the first label.
 */
export function isNameOfSite(wanted: string, siteNames: readonly string[]): boolean {
  return siteNames.some((name) => {
    if (name.startsWith('.')) return `.${wanted}`.endsWith(name);
    if (!wanted.startsWith('*.')) return wanted === name.toLowerCase();
    const dot = name.indexOf('.');
    return dot !== -1 && wanted.slice(1) === name.slice(dot).toLowerCase();
  });
}

function selectorOf(
  selector: WorkloadEntry['spec']['federatesWithSelector'],
): LabelSelector | undefined {
  return selector === undefined ? undefined : parseLabelSelector(labelSelectorText(selector));
}

/** Which trust domains an entry asks for: those that it names (`*` among them) and those that its selector finds. */
export function askedTrustDomains(
  { federatesWith, federatesWithSelector: selector }: UsableEntry,
  { federations, labels }: Pick<FederationState, 'federations' | 'labels'>,
): readonly string[] {
  if (selector === undefined || federatesWith.includes('*')) return federatesWith;
  const found = federations.filter((name) => selector.matches(labels.get(name)));
  return [...new Set([...federatesWith, ...found])];
}

/** Whether `askedTrustDomains` has it; costs the same however many federations there are. */
export function asksFor(
  {
    federatesWith,
    federatesWithSelector: selector,
  }: Pick<UsableEntry, 'federatesWith' | 'federatesWithSelector'>,
  trustDomain: string,
  { labels }: Pick<FederationState, 'labels'>,
): boolean {
  if (federatesWith.includes(trustDomain)) return true;
  if (!labels.has(trustDomain)) return false;
  return federatesWith.includes('*') || selector?.matches(labels.get(trustDomain)) === true;
}

/**
 * The hint of each entry, in their order. SPIFFE Workload API section 5.2.1: unique in a response.
 * What operators gave comes first, and of two that gave the same the first entry has it; the name of
 * the entry is the hint of the others. One whose hint is taken has none.
 */
export function hintsOf(entries: readonly UsableEntry[]): readonly string[] {
  const taken = new Set<string>();
  const take = (hint: string | undefined): string | undefined => {
    if (hint === undefined || taken.has(hint)) return undefined;
    taken.add(hint);
    return hint;
  };
  const given = entries.map(({ hint }) => take(hint));
  return entries.map(
    ({ hint, name }, at) => given[at] ?? (hint === undefined ? take(name) : undefined) ?? '',
  );
}

export class EntryIndex {
  readonly #bySelector = new Map<string, Set<UsableEntry>>();
  #hashing = 0;
  #version = 0;

  constructor(entries: Iterable<UsableEntry> = []) {
    for (const entry of entries) this.add(entry);
  }

  /** Another after every change. */
  get version(): number {
    return this.#version;
  }

  /** Whether an entry selects by the SHA-256 of the program, so that it must be known to match. */
  get needsHash(): boolean {
    return this.#hashing > 0;
  }

  add(entry: UsableEntry): void {
    this.#version++;
    if (selectsByHash(entry)) this.#hashing++;
    const key = mostTelling(entry.selectors);
    const same = this.#bySelector.get(key);
    if (same === undefined) this.#bySelector.set(key, new Set([entry]));
    else same.add(entry);
  }

  /** The very entry that was added. */
  remove(entry: UsableEntry): void {
    const key = mostTelling(entry.selectors);
    const same = this.#bySelector.get(key);
    if (same?.delete(entry) !== true) return;
    this.#version++;
    if (selectsByHash(entry)) this.#hashing--;
    if (same.size === 0) this.#bySelector.delete(key);
  }

  /**
   * The entries of which every selector is among those of the process, in order of names, which is
   * the order in which a workload gets its SVIDs.
   */
  match(selectors: readonly string[]): readonly UsableEntry[] {
    const found: UsableEntry[] = [];
    const held = new Set(selectors);
    for (const selector of held) {
      for (const entry of this.#bySelector.get(selector) ?? []) {
        if (entry.selectors.every((wanted) => held.has(wanted))) found.push(entry);
      }
    }
    return found.length < 2 ? found : found.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }
}

function selectsByHash({ selectors }: UsableEntry): boolean {
  return selectors.some((selector) => selector.startsWith(hashType));
}

function mostTelling(selectors: readonly string[]): string {
  for (const type of singleTypes) {
    const found = selectors.find((selector) => selector.startsWith(type));
    if (found !== undefined) return found;
  }
  return selectors[0] as string;
}
