// Which features the peers report, and which of ours they have, in the memory of this process. After a
// restart, a peer sends its names once more.

import { type FeatureNames, hashOfNames, ownNames } from '../features.ts';
import type { FeaturesPart } from './features-part.ts';

interface PeerFeatures {
  /** The hash of our names that the peer has. */
  has?: string | undefined;
  /** A site that reports its features only in the handshake ignores our names. */
  ignoresNames?: boolean;
  reported?: { readonly hash: string; readonly names: FeatureNames };
}

export class ReportedFeatures {
  readonly #own: { readonly hash: string; readonly names: FeatureNames };
  readonly #peers = new Map<string, PeerFeatures>();

  constructor(names = ownNames) {
    this.#own = { hash: hashOfNames(names), names };
  }

  /** For a message to the peer. */
  part(peer: string): FeaturesPart {
    const { hash, names } = this.#own;
    const { has, ignoresNames = false, reported } = this.#peers.get(peer) ?? {};
    return {
      hash,
      ...(has === hash || ignoresNames ? {} : { names }),
      ...(reported && { has: reported.hash }),
    };
  }

  /** The names that the peer has now; undefined where this site does not know them. */
  heard(peer: string, part: FeaturesPart | undefined): FeatureNames | undefined {
    const known = this.#peers.get(peer) ?? {};
    this.#peers.set(peer, known);
    known.ignoresNames = part === undefined;
    known.has = part?.has;
    if (part === undefined) return undefined;
    const { hash, names } = part;
    if (names !== undefined) known.reported = { hash, names };
    return known.reported?.hash === hash ? known.reported.names : undefined;
  }

  forget(peer: string): void {
    this.#peers.delete(peer);
  }
}
