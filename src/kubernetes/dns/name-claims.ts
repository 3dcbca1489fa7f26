// Which federated Service has a DNS name that several ask for: the oldest. Every site comes to the same result
// from the same objects.

export interface NameClaim {
  /** Of the federated Service: `keyOfRef`. */
  readonly key: string;
  readonly name: string;
  /** When the member Service was created that asks for it. RFC 3339, so it can be compared as text. */
  readonly createdAt: string;
  /** The cluster of the copy on which a user wrote it; empty for a name that any cluster may carry. */
  readonly clusterID: string;
}

/** The oldest first. */
function byAge(a: NameClaim, b: NameClaim): number {
  return (
    compare(a.createdAt, b.createdAt) ||
    compare(a.key, b.key) ||
    // A name by hand stays where its user put it.
    Number(a.clusterID === '') - Number(b.clusterID === '') ||
    compare(a.clusterID, b.clusterID)
  );
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
    const textOf = ({ name, createdAt, clusterID }: NameClaim): string =>
      `${name} ${createdAt} ${clusterID}`;
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
      const all = [...others, ...claims.filter((claim) => claim.name === name)].toSorted(byAge);
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
