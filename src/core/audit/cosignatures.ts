// The cosignatures of this site's log, beside its checkpoints: of each witness the newest cosigned
// checkpoint. Writes are batched: a witness repeats a cosignature that a crash lost.

import type { Clock, Timer } from '../clock/clock.ts';
import { hasCode } from '../errors/error.ts';
import { commitUnfenced } from '../lease/current-fence.ts';
import type { Log } from '../log/log.ts';
import { recordReader } from '../store/reader.ts';
import type { Entry, Expectation, Put, Store } from '../store/store.ts';
import { parseCheckpoint, type SignedCheckpoint } from './checkpoint.ts';
import { parseWitnessVerifier, verifyCosignature } from './cosignature.ts';
import type { NoteVerifier } from './note.ts';

const collection = 'audit.cosignatures';
/** More than a site has peers. */
const mostWitnesses = 4096;
const writeDelayMs = 1000;
/** After conflicts. More in a row indicate a fault. */
const mostAttempts = 8;

const reader = recordReader<{ readonly key: string; readonly note: string }>(collection);

export interface Cosigned {
  readonly witness: NoteVerifier;
  /** The checkpoint with the signatures of the log and of this witness. */
  readonly checkpoint: SignedCheckpoint;
  /** When the witness cosigned, by its clock. */
  readonly timeSeconds: number;
}

export class Cosignatures {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #newest = new Map<string, Cosigned>();
  readonly #unwritten = new Set<string>();
  #timer: Timer | undefined;
  #stopped = false;

  constructor(parts: { readonly store: Store; readonly clock: Clock; readonly log: Log }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#log = parts.log;
    for (const cosigned of storedCosignatures(parts.store)) {
      this.#newest.set(cosigned.witness.name, cosigned);
    }
  }

  /** The newest of this witness. */
  of(witness: string): Cosigned | undefined {
    return this.#newest.get(witness);
  }

  /** Of each witness the newest, the largest checkpoint first. */
  list(): readonly Cosigned[] {
    return sorted([...this.#newest.values()]);
  }

  /**
   * Takes the cosignature of this witness from a note whose log signature is verified. Returns whether
   * it is newer than the one before. Throws HANSA_AUDIT_INVALID if it does not verify.
   */
  add(checkpoint: SignedCheckpoint, witness: NoteVerifier): boolean {
    const cosignature = verifyCosignature(checkpoint, witness);
    const before = this.#newest.get(witness.name);
    if (
      cosignature === undefined ||
      (before === undefined && this.#newest.size >= mostWitnesses) ||
      (before !== undefined && isUpToDate(before, { witness, checkpoint }))
    ) {
      return false;
    }
    const { timeSeconds } = cosignature;
    this.#newest.set(witness.name, { witness, checkpoint, timeSeconds });
    this.#unwritten.add(witness.name);
    if (!this.#stopped) {
      this.#timer ??= this.#clock.timer(writeDelayMs, () => {
        this.#timer = undefined;
        void this.flush();
      });
    }
    return true;
  }

  /** Writes new cosignatures. A failure is logged, and the next write repeats them. */
  async flush(): Promise<void> {
    const names = [...this.#unwritten];
    this.#unwritten.clear();
    try {
      for (let attempt = 1; !(await this.#write(names, attempt)); attempt++);
    } catch (error) {
      for (const name of names) this.#unwritten.add(name);
      this.#log.warn('cannot store cosignatures of the audit log', { error });
    }
  }

  /** Keeps newer ones of other replicas. Resolves to false if another replica wrote meanwhile. */
  async #write(names: readonly string[], attempt: number): Promise<boolean> {
    const expect: Expectation[] = [];
    const put: Put[] = [];
    for (const name of names) {
      const entry = this.#store.get(collection, name);
      const stored = entry && cosignedIn(entry);
      const ours = this.#newest.get(name) as Cosigned;
      if (stored !== undefined && isUpToDate(stored, ours)) {
        this.#newest.set(name, stored);
        continue;
      }
      const { witness, checkpoint } = ours;
      const value = Buffer.from(JSON.stringify({ key: witness.text, note: checkpoint.note }));
      expect.push({ collection, name, at: entry?.revision ?? 'absent' });
      put.push({ collection, name, encode: () => value });
    }
    if (put.length === 0) return true;
    try {
      // Any replica may get a cosignature, so no lease orders the writes.
      await commitUnfenced(this.#store, { expect, put });
      return true;
    } catch (error) {
      if (hasCode(error, 'HANSA_CONFLICT') && attempt < mostAttempts) return false;
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.flush();
  }
}

/** The cosignatures in a store, also while its site is stopped. Leaves out what does not verify. */
export function storedCosignatures(store: Store): readonly Cosigned[] {
  return sorted(store.list(collection).entries.flatMap((entry) => cosignedIn(entry) ?? []));
}

/** Undefined if it does not verify: a changed record is no cosignature, and the witness sends it again. */
function cosignedIn(entry: Entry): Cosigned | undefined {
  try {
    const { key, note } = reader.of(entry);
    const witness = parseWitnessVerifier(key);
    const checkpoint = parseCheckpoint(note);
    const cosignature = verifyCosignature(checkpoint, witness);
    return cosignature && { witness, checkpoint, timeSeconds: cosignature.timeSeconds };
  } catch (error) {
    if (hasCode(error, 'HANSA_AUDIT_INVALID')) return undefined;
    throw error;
  }
}

type Source = Pick<Cosigned, 'witness' | 'checkpoint'>;

/**
 * Whether the newer of two is the first, or they are equal. Sizes can be compared only for one key of the
 * witness and one log of this site. Otherwise the second replaces the first.
 */
function isUpToDate(known: Source, next: Source): boolean {
  return (
    known.witness.text === next.witness.text &&
    known.checkpoint.origin === next.checkpoint.origin &&
    known.checkpoint.size >= next.checkpoint.size
  );
}

function sorted(found: readonly Cosigned[]): readonly Cosigned[] {
  return found.toSorted(
    (a, b) => b.checkpoint.size - a.checkpoint.size || (a.witness.name < b.witness.name ? -1 : 1),
  );
}
