// The cosignatures of this site's log, beside its checkpoints: of each witness the newest cosigned
// checkpoint. Writes are batched: a witness repeats a cosignature that a crash lost.

import type { Clock, Timer } from '../clock/clock.ts';
import { hasCode } from '../errors/error.ts';
import type { Log } from '../log/log.ts';
import { recordReader } from '../store/reader.ts';
import type { Put, Store } from '../store/store.ts';
import { parseCheckpoint, type SignedCheckpoint } from './checkpoint.ts';
import { parseWitnessVerifier, verifyCosignature } from './cosignature.ts';
import type { NoteVerifier } from './note.ts';

const collection = 'audit.cosignatures';
/** More than a site has peers. */
const mostWitnesses = 4096;
const writeDelayMs = 1000;

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
      (before?.witness.text === witness.text &&
        before.checkpoint.origin === checkpoint.origin &&
        before.checkpoint.size >= checkpoint.size)
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
    if (names.length === 0) return;
    const put = names.map((name): Put => {
      const { witness, checkpoint } = this.#newest.get(name) as Cosigned;
      const value = Buffer.from(JSON.stringify({ key: witness.text, note: checkpoint.note }));
      return { collection, name, encode: () => value };
    });
    try {
      await this.#store.commit({ put });
    } catch (error) {
      for (const name of names) this.#unwritten.add(name);
      this.#log.warn('cannot store cosignatures of the audit log', { error });
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
  const found: Cosigned[] = [];
  for (const entry of store.list(collection).entries) {
    try {
      const { key, note } = reader.of(entry);
      const witness = parseWitnessVerifier(key);
      const checkpoint = parseCheckpoint(note);
      const cosignature = verifyCosignature(checkpoint, witness);
      if (cosignature !== undefined) {
        found.push({ witness, checkpoint, timeSeconds: cosignature.timeSeconds });
      }
    } catch (error) {
      // A changed record is no cosignature. The witness sends it again.
      if (!hasCode(error, 'HANSA_AUDIT_INVALID')) throw error;
    }
  }
  return sorted(found);
}

function sorted(found: readonly Cosigned[]): readonly Cosigned[] {
  return found.toSorted(
    (a, b) => b.checkpoint.size - a.checkpoint.size || (a.witness.name < b.witness.name ? -1 : 1),
  );
}
