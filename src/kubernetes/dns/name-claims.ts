// Which federated Service has a DNS name that several ask for: the one that has it already, or else the oldest.
// Every site comes to the same result from the same objects.

import { byDate, type DatedClaim } from '../services/tenures.ts';

export interface NameClaim {
  /** Of the federated Service: `keyOfRef`. */
  readonly key: string;
  readonly name: string;
  /** Since when it has the name; undefined where it only asks. */
  readonly sinceMs: number | undefined;
  /** The member Service that asks for it. */
  readonly asking: DatedClaim;
  /** The cluster of the copy on which a user wrote it; empty for a name that any cluster may carry. */
  readonly clusterID: string;
}

/** Who has it first, then the oldest. */
function inOrder(a: NameClaim, b: NameClaim): number {
  // A name by hand stays where its user put it.
  if (a.key === b.key) {
    const byHand = Number(a.clusterID === '') - Number(b.clusterID === '');
    return byHand || compare(a.clusterID, b.clusterID);
  }
  const [one = Number.MAX_SAFE_INTEGER, two = Number.MAX_SAFE_INTEGER] = [a.sinceMs, b.sinceMs];
  const byTime = one - two || (a.sinceMs === undefined ? byDate(a.asking, b.asking) : 0);
  return byTime || compare(a.key, b.key);
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

export class NameClaims {
  readonly #byKey = new Map<string, readonly NameClaim[]>();
  readonly #byName = new Map<string, NameClaim[]>();

  has(key: string): boolean {
    return this.#byKey.has(key);
  }

  keys(): Iterable<string> {
    return this.#byKey.keys();
  }

  /** Replaces the claims of a federated Service. Returns the others that this concerns. */
  set(key: string, claims: readonly NameClaim[]): readonly string[] {
    const old = this.#byKey.get(key) ?? [];
    const textOf = ({ name, sinceMs, asking, clusterID }: NameClaim): string =>
      [name, sinceMs, asking.admittedAt, asking.createdAt, asking.clusterID, clusterID].join(' ');
    const before = new Set(old.map(textOf));
    const now = new Set(claims.map(textOf));
    const changed = new Set(
      [...old, ...claims]
        .filter((claim) => before.has(textOf(claim)) !== now.has(textOf(claim)))
        .map(({ name }) => name),
    );
    if (claims.length === 0) this.#byKey.delete(key);
    else this.#byKey.set(key, claims);
    if (changed.size === 0) return [];
    const rivals = new Set<string>();
    for (const name of changed) {
      const others = (this.#byName.get(name) ?? []).filter((claim) => claim.key !== key);
      for (const other of others) rivals.add(other.key);
      const all = [...others, ...claims.filter((claim) => claim.name === name)].toSorted(inOrder);
      if (all.length === 0) this.#byName.delete(name);
      else this.#byName.set(name, all);
    }
    return [...rivals];
  }

  /** Undefined where nobody asks for it. */
  winner(name: string): NameClaim | undefined {
    return this.#byName.get(name)?.[0];
  }
}
