// The records of the handshake beside the resources: invitations that this site created, and those
// that it accepted. Every change is a compare-and-set, so that each step happens once.

import { commitFenced } from '../../core/lease/current-fence.ts';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import type { ApprovalMode } from '../../core/approvals/policy.ts';
import { hasCode } from '../../core/errors/error.ts';
import { type Reader, recordReader } from '../../core/store/reader.ts';
import type { Commit, Entry, Expectation, Store } from '../../core/store/store.ts';
import type { Features } from '../features.ts';
import type { HandshakeState } from '../peers/peer-states.ts';
import {
  type EarlierAcceptance,
  type EarlierInvitation,
  readAcceptance,
  readInvitation,
} from './earlier-records.ts';

export const invitationsCollection = 'peering.invitations';
export const acceptancesCollection = 'peering.acceptances';

const invitationsReader = recordReader<InvitationRecord | EarlierInvitation>(
  invitationsCollection,
).derive(readInvitation);
const acceptancesReader = recordReader<AcceptanceRecord | EarlierAcceptance>(
  acceptancesCollection,
).derive(readAcceptance);

/** The invitations that this site created, by their public id. */
export function invitationRecords(store: Store): Records<InvitationRecord> {
  return new Records(store, invitationsReader);
}

/** The invitations that this site accepted, by the trust domain of the inviting site. */
export function acceptanceRecords(store: Store): Records<AcceptanceRecord> {
  return new Records(store, acceptancesReader);
}

/**
 * One handshake with another site, as this site knows it: part of every redemption and every
 * acceptance. Its state changes along the table of peer states, and the FederationPeer follows it.
 */
export interface Peering {
  readonly state: HandshakeState;
  readonly url: string;
  readonly atMs: number;
  /** The verified SPIFFE bundle document of the other site. */
  readonly bundle?: string;
  readonly contractVersion?: number;
  /** What the other site told about itself. */
  readonly features?: Features;
  /** The uid of the revoked peer of this name that the new peer replaces. */
  readonly replaces?: string;
  /** The uid of the peer that it created. It never creates another one. */
  readonly madeUid?: string;
  /** The uid of the Approval that allowed it. */
  readonly approval?: string;
}

/** Proposed until an operator confirms it, and revoked when its peer is revoked or deleted. */
export interface Redemption extends Peering {
  readonly trustDomain: string;
  readonly bundle: string;
  /** The fingerprint of that bundle. */
  readonly fingerprint: string;
  /** SHA-256, in hex, of the keys that verified the acceptor's certificate. */
  readonly provenKeys?: readonly string[];
  readonly contractVersion: number;
  /** Why an operator must confirm. Absent if no confirmation is required. */
  readonly confirmation?: string;
}

/** Stored under its public id. Contains only the digest of the secret. */
export interface InvitationRecord {
  readonly digest: string;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
  readonly for?: string;
  /** The fingerprint of the only keys that may redeem it. */
  readonly forKeys?: string;
  /** The uid of the peer that it re-enrols. */
  readonly reenrols?: string;
  /** The user who created it. Records of earlier versions lack it. */
  readonly createdBy?: string;
  /** The uid of the Approval that allowed it. */
  readonly approval?: string;
  readonly redeemed?: Redemption;
  /** No site can redeem it. The record stays until it expires, so that a redeemer gets the reason. */
  readonly cancelled?: { readonly atMs: number; readonly by: string };
  /** The first attempt of another site to redeem it after `redeemed`. */
  readonly contested?: Contest;
}

/** A second site knows the secret of a redeemed invitation. */
export interface Contest {
  readonly trustDomain: string;
  /** Absent if the other site only asked for a preview, which sends no keys. */
  readonly fingerprint?: string;
  readonly address?: string;
  readonly atMs: number;
}

/**
 * Stored under the trust domain of the inviting site. Accepted when the inviter has accepted the
 * redemption, and revoked when the inviter has rejected it.
 */
export interface AcceptanceRecord extends Peering {
  readonly invitation: string;
  /** SHA-256 of the public keys that the invitation pins, in hex. */
  readonly keys: readonly string[];
  readonly expiresAtMs: number;
  /** The invitation is redeemed, and an operator of the inviting site must confirm this site. */
  readonly waits?: boolean;
  /** Sealed, in base64. Removed as soon as it is no longer needed. */
  readonly secret?: string;
  /**
   * The consent that the acceptance had: `none`, that of an approver, or that of two persons. Records of
   * earlier versions lack it.
   */
  readonly consent?: ApprovalMode;
  /** What the inviter warned about, each with its name. */
  readonly warnings?: readonly string[];
  /** Set if the inviter rejected it. */
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

  constructor(store: Store, reader: Reader<T>) {
    this.#store = store;
    this.#collection = reader.collection;
    this.#reader = reader;
  }

  get(name: string): Kept<T> | undefined {
    const entry = this.#store.get(this.#collection, name);
    return entry && this.#read(entry);
  }

  list(): readonly Kept<T>[] {
    return this.#store.list(this.#collection).entries.map((entry) => this.#read(entry));
  }

  /** Rejects with HANSA_CONFLICT if the record has changed since `before`. */
  async put(
    name: string,
    before: Kept<T> | undefined,
    value: T,
    audit: NonNullable<Commit['audit']> = [],
    spent?: SpentApproval,
  ): Promise<void> {
    const written = this.written(name, before, value);
    await commitFenced(this.#store, {
      expect: [...written.expect, ...(spent?.expect ?? [])],
      put: [...written.put, ...(spent?.put ?? [])],
      audit: [...audit, ...(spent?.audit ?? [])],
    });
  }

  /** What a commit contains that writes the record beside other changes. */
  written(
    name: string,
    before: Kept<T> | undefined,
    value: T,
  ): Required<Pick<Commit, 'expect' | 'put'>> {
    const bytes = Buffer.from(JSON.stringify(value));
    return {
      expect: [this.unchanged(name, before)],
      put: [{ collection: this.#collection, name, encode: () => bytes }],
    };
  }

  /** That the record is still as it was read. */
  unchanged(name: string, before: Kept<T> | undefined): Expectation {
    return { collection: this.#collection, name, at: before?.revision ?? 'absent' };
  }

  /**
   * Changes the current record and retries after a conflict. `undefined` leaves it unchanged. With an Approval it
   * does not retry, because another caller may have spent it.
   */
  async change(
    name: string,
    next: (value: T) => T | undefined,
    audit?: NonNullable<Commit['audit']>,
    spent?: SpentApproval,
  ): Promise<void> {
    for (;;) {
      const before = this.get(name);
      const value = before && next(before.value);
      if (value === undefined) return;
      try {
        await this.put(name, before, value, audit, spent);
        return;
      } catch (error) {
        if (spent !== undefined || !hasCode(error, 'HANSA_CONFLICT')) throw error;
      }
    }
  }

  async delete(before: Kept<T>): Promise<void> {
    const { name, revision } = before;
    await commitFenced(this.#store, {
      expect: [{ collection: this.#collection, name, at: revision }],
      delete: [{ collection: this.#collection, name }],
    });
  }

  #read(entry: Entry): Kept<T> {
    return { name: entry.name, value: this.#reader.of(entry), revision: entry.revision };
  }
}
