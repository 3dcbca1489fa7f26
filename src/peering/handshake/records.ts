// What the handshake remembers beside the resources: invitations that this site made, and
// invitations that it accepted. One JSON record each, changed by compare-and-set alone, so that a
// step happens once however often it is tried.

import { hasCode } from '../../core/errors/error.ts';
import { type Reader, recordReader } from '../../core/store/reader.ts';
import type { Commit, Entry, Store } from '../../core/store/store.ts';

export const invitationsCollection = 'peering.invitations';
export const acceptancesCollection = 'peering.acceptances';

export interface Redemption {
  readonly trustDomain: string;
  readonly url: string;
  /** The SPIFFE bundle document that the acceptor brought. */
  readonly bundle: string;
  /** SHA-256 over the keys of that bundle, to compare by voice. */
  readonly fingerprint: string;
  /** SHA-256, in hex, of the keys by which the acceptor proved itself. */
  readonly provenKeys?: readonly string[];
  readonly contractVersion: number;
  readonly atMs: number;
  /** Why an operator must confirm; absent where none must. */
  readonly confirmation?: string;
  readonly confirmed?: boolean;
  /** The uid of the revoked peer of this name whose place it takes. */
  readonly replaces?: string;
  /** The uid of the peer that it made. It makes no peer with another uid. */
  readonly madeUid?: string;
  /** The peer that it made was revoked or deleted: it makes no other. */
  readonly over?: boolean;
}

/** Under its public name. Of the secret only the digest is here. */
export interface InvitationRecord {
  readonly digest: string;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
  readonly for?: string;
  /** The fingerprint of the only keys that may redeem it. */
  readonly forKeys?: string;
  /** The user who made it. Records of earlier versions lack it. */
  readonly createdBy?: string;
  readonly redeemed?: Redemption;
  /** Nothing redeems it any more. Kept until it expires, so that a redeemer is told. */
  readonly cancelled?: { readonly atMs: number; readonly by: string };
  /** The first attempt of another site to redeem it after `redeemed`. */
  readonly contested?: Contest;
}

/** Two sites know the secret of one invitation: one of them is not the invited one. */
export interface Contest {
  readonly trustDomain: string;
  /** Absent where the other site only asked about the invitation, which takes no keys. */
  readonly fingerprint?: string;
  readonly address?: string;
  readonly atMs: number;
}

export type AcceptanceStep = 'redeeming' | 'pending' | 'done' | 'refused';

/** Under the trust domain of the inviting site. */
export interface AcceptanceRecord {
  readonly invitation: string;
  readonly url: string;
  /** SHA-256 of the public keys that the invitation pins, in hex. */
  readonly keys: readonly string[];
  readonly expiresAtMs: number;
  readonly startedAtMs: number;
  /** The uid of the revoked peer of this name whose place it takes. */
  readonly replaces?: string;
  /** The uid of the peer that it made. It makes no peer with another uid. */
  readonly madeUid?: string;
  readonly step: AcceptanceStep;
  /** Sealed, in base64; gone as soon as it is not needed any more. */
  readonly secret?: string;
  /** The SPIFFE bundle document of the inviting site, once it was verified. */
  readonly bundle?: string;
  readonly fingerprint?: string;
  readonly contractVersion?: number;
  /** Where it was refused. */
  readonly failure?: { readonly code: string; readonly message: string };
}

export interface Kept<T> {
  readonly name: string;
  readonly value: T;
  readonly revision: number;
}

export class Records<T> {
  readonly #store: Store;
  readonly #collection: string;
  readonly #reader: Reader<T>;

  constructor(store: Store, collection: string) {
    this.#store = store;
    this.#collection = collection;
    this.#reader = recordReader(collection);
  }

  get(name: string): Kept<T> | undefined {
    const entry = this.#store.get(this.#collection, name);
    return entry && this.#read(entry);
  }

  list(): readonly Kept<T>[] {
    return this.#store.list(this.#collection).entries.map((entry) => this.#read(entry));
  }

  /** Rejects with HANSA_CONFLICT where `before` is not what is there any more. */
  async put(
    name: string,
    before: Kept<T> | undefined,
    value: T,
    audit: NonNullable<Commit['audit']> = [],
  ): Promise<void> {
    const bytes = Buffer.from(JSON.stringify(value));
    await this.#store.commit({
      expect: [{ collection: this.#collection, name, at: before?.revision ?? 'absent' }],
      put: [{ collection: this.#collection, name, encode: () => bytes }],
      audit,
    });
  }

  /** Changes a record as it is now; looks again where somebody else was faster. Undefined leaves it as it is. */
  async change(
    name: string,
    next: (value: T) => T | undefined,
    audit?: NonNullable<Commit['audit']>,
  ): Promise<void> {
    for (;;) {
      const before = this.get(name);
      const value = before && next(before.value);
      if (value === undefined) return;
      try {
        await this.put(name, before, value, audit);
        return;
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      }
    }
  }

  async delete(before: Kept<T>): Promise<void> {
    const { name, revision } = before;
    await this.#store.commit({
      expect: [{ collection: this.#collection, name, at: revision }],
      delete: [{ collection: this.#collection, name }],
    });
  }

  #read(entry: Entry): Kept<T> {
    return { name: entry.name, value: this.#reader.of(entry), revision: entry.revision };
  }
}
