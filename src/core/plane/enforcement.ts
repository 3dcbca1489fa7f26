// Enforcement points: the places that can reject a peer. Each registers with a name and reports
// whether a suspend or revoke has reached it. Each replica reports its own points through the store, and
// a controller writes all of them into the status of the peer, so that operators see them.

/** Methods are quick and without I/O. */
export interface EnforcementPoint {
  /** Unique, and stable: it is stored. */
  readonly name: string;
  /** Whether this point now rejects the peer. */
  refuses(peer: string): boolean;
}

/** `elsewhere`: another replica serves it. `unknown`: it may still admit the peer. */
export type RemoteState = 'rejects' | 'unknown' | 'elsewhere';

/** Programs on other machines that enforce for this site, such as agents. Methods are quick and without I/O. */
export interface RemoteEnforcement {
  /** The first part of the name of each: `KIND/NAME`. */
  readonly kind: string;
  /**
   * Those that are connected to this process, by name: whether each rejects the peer. Only those that may
   * admit it, those from which this connection has withdrawn it, and those in `known`.
   */
  connected(peer: string, known: ReadonlySet<string>): ReadonlyMap<string, boolean>;
  /** All others that exist, by name. */
  others(peer: string): ReadonlyMap<string, RemoteState>;
  /** Calls `listener` when an answer may have changed. Returns how to stop. */
  onChange(listener: () => void): () => void;
}

/** The points of this process. */
export class EnforcementPoints {
  readonly #points = new Map<string, EnforcementPoint>();
  readonly #remotes = new Map<string, RemoteEnforcement>();

  /** Returns how to unregister. */
  register(point: EnforcementPoint): () => void {
    if (this.#points.has(point.name)) {
      throw new Error(`two enforcement points are called ${point.name}`);
    }
    this.#points.set(point.name, point);
    return () => this.#points.delete(point.name);
  }

  /** Returns how to unregister. */
  registerRemote(remote: RemoteEnforcement): () => void {
    if (this.#remotes.has(remote.kind)) {
      throw new Error(`two planes report the enforcement of each ${remote.kind}`);
    }
    this.#remotes.set(remote.kind, remote);
    return () => this.#remotes.delete(remote.kind);
  }

  /** In order of names. */
  get all(): readonly EnforcementPoint[] {
    return [...this.#points.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  get remotes(): readonly RemoteEnforcement[] {
    return [...this.#remotes.values()];
  }
}
