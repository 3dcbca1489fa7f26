// What this site holds of each peer's audit log: its key, and the newest checkpoint that this site has
// verified. Every change is a compare-and-set. A record outlives its peer, so that a peer that comes
// back under the same name cannot show another history.

import { hash } from 'node:crypto';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import { type NoteVerifier, parseVerifier } from '../../core/audit/note.ts';
import { storedRestore } from '../../core/audit/restore-record.ts';
import type { Commit, Entry, Store } from '../../core/store/store.ts';
import { emptyRoot } from '../../core/merkle/tree.ts';
import { recordReader } from '../../core/store/reader.ts';
import { type Kept, Records } from '../handshake/records.ts';
import type { Finding } from './finding.ts';
import type { Head } from './judge.ts';

export const witnessedCollection = 'peering.witnessed';

export interface WitnessedLog {
  /** The enrolment of the peer that introduced the key (`enrolmentOf`). */
  readonly uid: string;
  /** The verifier key of the log. Its name is the origin. */
  readonly key: string;
  readonly size: number;
  /** In base64. */
  readonly rootHash: string;
  /** The newest verified checkpoint, with the signature of the log only. Absent or empty while the size is 0. */
  readonly note?: string;
  /** Stays until an operator acknowledges it. */
  readonly finding?: Finding;
  /** The restore records of the peer that this site has accepted, the last one only. */
  readonly restore?: string;
  /** The restore of this site after which the size was confirmed (`WitnessedLogs.restoreId`). */
  readonly confirmed?: string;
}

const reader = recordReader<WitnessedLog>(witnessedCollection);

export class WitnessedLogs {
  readonly #store: Store;
  readonly #records: Records<WitnessedLog>;

  constructor(store: Store) {
    this.#store = store;
    this.#records = new Records(store, reader);
  }

  get(name: string): Kept<WitnessedLog> | undefined {
    return this.#records.get(name);
  }

  list(): readonly Kept<WitnessedLog>[] {
    return this.#records.list();
  }

  get count(): number {
    return this.#store.count(witnessedCollection);
  }

  /** The log at a position in the order of names, below `count`. Reads no other. */
  at(position: number): Kept<WitnessedLog> {
    const entry = this.#store.list(witnessedCollection).entries[position] as Entry;
    return { name: entry.name, value: reader.of(entry), revision: entry.revision };
  }

  /** Rejects with HANSA_CONFLICT if the record has changed since `before`. */
  put(
    name: string,
    before: Kept<WitnessedLog> | undefined,
    value: WitnessedLog,
    audit: NonNullable<Commit['audit']> = [],
    spent?: SpentApproval,
  ): Promise<void> {
    return this.#records.put(name, before, value, audit, spent);
  }

  /** Whether the size in the record counts: this site was not restored since, or it was confirmed. */
  isConfirmed({ confirmed }: WitnessedLog): boolean {
    return confirmed === this.restoreId();
  }

  /** Identifies the last restore of this site; undefined if it was never restored. */
  restoreId(): string | undefined {
    const record = storedRestore(this.#store);
    return record === undefined ? undefined : hash('sha256', record).slice(0, 16);
  }
}

/** A log of which this site has seen no event. */
export function newLog(uid: string, key: string): WitnessedLog {
  return { uid, key, ...emptyHead };
}

export const emptyHead = { size: 0, rootHash: emptyRoot.toString('base64') } as const;

export function headOf({ size, rootHash }: WitnessedLog): Head {
  return { size, rootHash: Buffer.from(rootHash, 'base64') };
}

/** More than a site has peers. */
const mostVerifiers = 4096;
const verifiers = new Map<string, NoteVerifier>();

/** `parseVerifier`, which takes as long as a signature, once for each key. */
export function verifierOf({ key }: Pick<WitnessedLog, 'key'>): NoteVerifier {
  const known = verifiers.get(key);
  if (known !== undefined) return known;
  if (verifiers.size >= mostVerifiers) verifiers.clear();
  const parsed = parseVerifier(key);
  verifiers.set(key, parsed);
  return parsed;
}
