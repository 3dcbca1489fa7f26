// Which federated Service has a DNS name that several ask for: the one that has it already, or else the oldest.
// Every site comes to the same result from the same objects.

import { byDate, type DatedClaim } from '../services/tenures.ts';

/** Since when a federated Service has a name, and how good the record of it is: 0 is the best. */
export interface NameTenure {
  readonly rank: number;
  readonly ms: number;
}

export interface NameClaim {
  /** Of the federated Service: `keyOfRef`. */
  readonly key: string;
  readonly name: string;
  /** Undefined where it only asks. */
  readonly since: NameTenure | undefined;
  /** The member Service that asks for it. */
  readonly asking: DatedClaim;
  /** The cluster of the copy on which a user wrote it; empty for a name that any cluster may carry. */
  readonly clusterID: string;
}

const nobody: NameTenure = { rank: Number.MAX_SAFE_INTEGER, ms: 0 };

/** Who has it first, then the oldest. */
function inOrder(a: NameClaim, b: NameClaim): number {
  // A name by hand stays where its user put it.
  if (a.key === b.key) {
    const byHand = Number(a.clusterID === '') - Number(b.clusterID === '');
    return byHand || compare(a.clusterID, b.clusterID);
  }
  const [one = nobody, two = nobody] = [a.since, b.since];
  // A worse record never displaces who has the name by a better one.
  const byTime = one.rank - two.rank || one.ms - two.ms;
  return byTime || (one === nobody ? byDate(a.asking, b.asking) : 0) || compare(a.key, b.key);
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
    const textOf = ({ name, since, asking, clusterID }: NameClaim): string =>
      [
        name,
        since?.rank,
        since?.ms,
        asking.admittedAt,
        asking.createdAt,
        asking.clusterID,
        clusterID,
      ].join(' ');
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
