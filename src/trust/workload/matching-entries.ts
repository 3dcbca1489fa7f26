// The entries of a site, indexed so that finding those of a process takes time with what the process
// is, not with how many entries there are. Pure.

import type { ResourceOf } from '../../api/kind.ts';
import type { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { SpiffeId } from '../../api/spiffe-id.ts';
import type { TrustDomain } from '../../api/trust-domain.ts';
import { toHansaError } from '../../core/errors/error.ts';

export type WorkloadEntry = ResourceOf<typeof workloadEntryKind>;

/** An entry whose identity this site may issue. Only `usableEntry` makes these. */
export interface UsableEntry {
  readonly name: string;
  readonly uid: string;
  readonly id: SpiffeId;
  readonly selectors: readonly string[];
  readonly federatesWith: readonly string[];
  readonly ttlSeconds: number;
}

/** Why an entry gives nothing: a word for programs, a sentence for people. */
export interface EntryProblem {
  readonly reason: 'InvalidID' | 'ForeignTrustDomain' | 'ReservedPath' | 'NeverMatches';
  readonly message: string;
}

export function usableEntry(
  entry: WorkloadEntry,
  trustDomain: TrustDomain,
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
        message: `${spiffeID} is of another trust domain: this site issues identities of ${trustDomain.name} only.`,
      },
    };
  }
  if (id.isReserved || id.path === '') {
    return {
      problem: {
        reason: 'ReservedPath',
        message: `${spiffeID} cannot be given to a workload: /hansa and everything below it is reserved, and an identity needs a path.`,
      },
    };
  }
  const types = selectors.map((selector) => selector.slice(0, selector.indexOf(':', 5)));
  if (selectors.length === 0 || new Set(types).size < types.length) {
    return {
      problem: {
        reason: 'NeverMatches',
        message:
          'No process is matched by all of the selectors: each has one uid, one gid and one path.',
      },
    };
  }
  const { name, uid } = entry.metadata;
  return { entry: { name, uid, id, selectors, federatesWith, ttlSeconds } };
}

/** Immutable: another set of entries is another index. */
export class EntryIndex {
  readonly #bySelector = new Map<string, UsableEntry[]>();

  /** In order of names, which is the order in which a workload gets its SVIDs. */
  constructor(entries: Iterable<UsableEntry>) {
    for (const entry of entries) {
      const key = mostTelling(entry.selectors);
      const same = this.#bySelector.get(key);
      if (same === undefined) this.#bySelector.set(key, [entry]);
      else same.push(entry);
    }
  }

  /** The entries of which every selector is among those of the process. */
  match(selectors: readonly string[]): readonly UsableEntry[] {
    const found: UsableEntry[] = [];
    for (const selector of selectors) {
      for (const entry of this.#bySelector.get(selector) ?? []) {
        if (entry.selectors.every((wanted) => selectors.includes(wanted))) found.push(entry);
      }
    }
    return found.length < 2 ? found : found.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }
}

/** Many entries share a user; fewer share a program. An entry stands under one of its selectors only. */
function mostTelling(selectors: readonly string[]): string {
  return (
    selectors.find((selector) => selector.startsWith('unix:path:')) ??
    selectors.find((selector) => selector.startsWith('unix:uid:')) ??
    (selectors[0] as string)
  );
}
