// Enforcement points: the places that can refuse a peer. Each registers with a name, and says whether a
// suspend or revoke has reached it. A controller writes the answers into the status of the peer, so that
// operators see them, and so that a later replica or agent can report its own points there.

/** Methods are quick and without I/O. */
export interface EnforcementPoint {
  /** Unique, and stable: it is stored. A point outside of this process has its own name. */
  readonly name: string;
  /** Whether nothing of the peer passes here any more. */
  refuses(peer: string): boolean;
}

/** The points of this process. Each replica has its own; what they report meets in the store. */
export class EnforcementPoints {
  readonly #points = new Map<string, EnforcementPoint>();

  /** Returns how to take it back. */
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
