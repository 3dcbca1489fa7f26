// Enforcement points: the places that can reject a peer. Each registers with a name and reports
// whether a suspend or revoke has reached it. A controller writes the reports into the status of the
// peer, so that operators see them, and so that a later replica or agent can report its own points.

/** Methods are quick and without I/O. */
export interface EnforcementPoint {
  /** Unique, and stable: it is stored. A point outside of this process has its own name. */
  readonly name: string;
  /** Whether this point now rejects the peer. */
  refuses(peer: string): boolean;
}

/** The points of this process. Each replica has its own and reports them through the store. */
export class EnforcementPoints {
  readonly #points = new Map<string, EnforcementPoint>();

  /** Returns how to unregister. */
  register(point: EnforcementPoint): () => void {
    if (this.#points.has(point.name)) {
      throw new Error(`two enforcement points are called ${point.name}`);
    }
    this.#points.set(point.name, point);
    return () => this.#points.delete(point.name);
  }

  /** In order of names. */
  get all(): readonly EnforcementPoint[] {
    return [...this.#points.values()].toSorted((a, b) => a.name.localeCompare(b.name));
  }
}
