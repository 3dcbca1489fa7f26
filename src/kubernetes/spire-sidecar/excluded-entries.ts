// Which entries may federate where `federation.namespaceSelector` limits the namespaces, and the record of the trust
// domains that other entries lost by it, so that they get them back. Pure.

import { isObject } from '../../api/schema/json.ts';
import type { FederatedEntry } from './spire-api.ts';

/** What one entry lost, and the namespaces that its selectors named then. */
export interface Exclusion {
  readonly namespaces: readonly string[];
  readonly trustDomains: readonly string[];
}

/** By the ID of the entry. */
export type Exclusions = ReadonlyMap<string, Exclusion>;

/** Undefined: all namespaces. */
export type Namespaces = ReadonlySet<string> | undefined;

export interface EntryChanges {
  /** Entries with their new trust domains. */
  readonly update: readonly FederatedEntry[];
  readonly exclusions: Exclusions;
}

/** The namespaces in selectors of the workload attestor `k8s`. A workload has all selectors of its entry. */
export function namespacesOf({ selectors }: FederatedEntry): readonly string[] {
  return selectors
    .filter(({ type, value }) => type === 'k8s' && value.startsWith('ns:'))
    .map(({ value }) => value.slice('ns:'.length));
}

/** An entry without a namespace may stand for workloads of any namespace. */
const isAllowed = (namespaces: Namespaces, named: readonly string[]): boolean =>
  namespaces === undefined ||
  (named.length > 0 && named.every((namespace) => namespaces.has(namespace)));

export const mayFederate = (namespaces: Namespaces, entry: FederatedEntry): boolean =>
  isAllowed(namespaces, namespacesOf(entry));

/** Takes all trust domains from entries that may not federate. */
export function planExclusion(
  namespaces: Namespaces,
  entries: readonly FederatedEntry[],
  before: Exclusions,
): EntryChanges {
  const outside = entries.filter(
    (entry) => entry.federatesWith.length > 0 && !mayFederate(namespaces, entry),
  );
  return {
    update: outside.map((entry) => ({ ...entry, federatesWith: [] })),
    exclusions: withExcluded(before, outside),
  };
}

/** Records that these entries lose their trust domains. */
export function withExcluded(before: Exclusions, entries: readonly FederatedEntry[]): Exclusions {
  const exclusions = new Map(before);
  for (const entry of entries) {
    const lost = new Set([...(before.get(entry.id)?.trustDomains ?? []), ...entry.federatesWith]);
    exclusions.set(entry.id, {
      namespaces: namespacesOf(entry),
      trustDomains: [...lost].toSorted(),
    });
  }
  return exclusions;
}

/** Whether an entry may get a trust domain back. `isUsable`: SPIRE has its bundle, and it is not withheld. */
export function hasReadmission(
  namespaces: Namespaces,
  exclusions: Exclusions,
  isUsable: (trustDomain: string) => boolean,
): boolean {
  return exclusions
    .values()
    .some((each) => isAllowed(namespaces, each.namespaces) && each.trustDomains.some(isUsable));
}

/** `entries` are all entries of the server. Those that are gone are forgotten. */
export function planReadmission(
  namespaces: Namespaces,
  entries: readonly FederatedEntry[],
  before: Exclusions,
  isUsable: (trustDomain: string) => boolean,
): EntryChanges {
  const exclusions = new Map<string, Exclusion>();
  const update: FederatedEntry[] = [];
  for (const entry of entries) {
    const lost = before.get(entry.id)?.trustDomains;
    if (lost === undefined) continue;
    const isBack = mayFederate(namespaces, entry);
    const kept = isBack ? lost.filter((name) => !isUsable(name)) : lost;
    if (kept.length > 0) {
      exclusions.set(entry.id, { namespaces: namespacesOf(entry), trustDomains: kept });
    }
    const added = isBack
      ? lost.filter((name) => isUsable(name) && !entry.federatesWith.includes(name))
      : [];
    if (added.length > 0) {
      update.push({ ...entry, federatesWith: [...entry.federatesWith, ...added] });
    }
  }
  return { update, exclusions };
}

/** Entries of one namespace mostly lose the same trust domains, so they are written as groups. */
interface Group {
  readonly namespaces: readonly string[];
  readonly trustDomains: readonly string[];
  readonly entries: string[];
}

export function exclusionsText(exclusions: Exclusions): string {
  const groups = new Map<string, Group>();
  for (const [id, { namespaces, trustDomains }] of exclusions) {
    const key = JSON.stringify([namespaces, trustDomains]);
    const group = groups.get(key) ?? { namespaces, trustDomains, entries: [] };
    group.entries.push(id);
    groups.set(key, group);
  }
  return JSON.stringify([...groups.values()]);
}

/** Leaves out groups of another form. Never throws. */
export function readExclusions(text: unknown): Exclusions {
  const exclusions = new Map<string, Exclusion>();
  let value: unknown;
  try {
    value = typeof text === 'string' ? JSON.parse(text) : undefined;
  } catch {
    return exclusions;
  }
  for (const group of Array.isArray(value) ? value : []) {
    if (!isObject(group)) continue;
    const { namespaces, trustDomains, entries } = group;
    if (!isTexts(namespaces) || !isTexts(trustDomains) || !isTexts(entries)) continue;
    for (const id of entries) exclusions.set(id, { namespaces, trustDomains });
  }
  return exclusions;
}

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');
