// Verifies a log, an export or one proof offline, with a public key. Failures are HANSA_AUDIT_INVALID
// with a message that says what is wrong.

import { HansaError } from '../errors/error.ts';
import type { AuditLog } from '../store/store.ts';
import { parseCheckpoint, type SignedCheckpoint, verifyCheckpoint } from './checkpoint.ts';
import { mostCosignatures, type NoteVerifier, parseVerifier } from './note.ts';
import { parseWitnessVerifier, verifyCosignature } from './cosignature.ts';
import type { Cosigned } from './cosignatures.ts';
import { type AuditEvent, largestRowBytes, parseEvent } from './event.ts';
import { exportFormat, proofFormat } from './export.ts';
import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';
import { LineSplitter } from './lines.ts';
import { verifyInclusion } from '../merkle/proofs.ts';
import { Frontier, hashBytes, leafHash } from '../merkle/tree.ts';

export interface VerifyOptions {
  /** The log's public key, known from elsewhere. Without it the file's own key is used and reported. */
  readonly key?: NoteVerifier;
  /**
   * An earlier checkpoint: the log must extend the tree that it signed. This detects a log that was
   * rewritten and signed again.
   */
  readonly earlier?: SignedCheckpoint;
  /** Keys of witnesses, known from elsewhere. */
  readonly witnesses?: readonly NoteVerifier[];
  readonly progress?: (rows: number, total: number) => void;
}

/** A witness cosigned the first `events` events. */
export interface WitnessedUpTo {
  readonly witness: string;
  readonly events: number;
  /** When, by the clock of the witness. */
  readonly time: string;
  /** Whether the key of the witness came from the caller. */
  readonly keyIsTrusted: boolean;
}

export interface Verified {
  readonly origin: string;
  readonly size: number;
  readonly rootHash: Buffer;
  readonly key: NoteVerifier;
  /** Whether the key came from the caller; otherwise a forger could have replaced it. */
  readonly keyIsTrusted: boolean;
  /** The largest first. */
  readonly cosigned: readonly WitnessedUpTo[];
}

/** Rows that are hashed in one go: about 4 ms. */
const chunkRows = 1024;

/** Verifies an export as it streams in: O(rows) time, O(log rows) memory. A million rows take seconds. */
export async function verifyExport(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: VerifyOptions = {},
): Promise<Verified> {
  const splitter = new LineSplitter(largestRowBytes);
  let tree: TreeCheck | undefined;
  for await (const piece of pieces) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    for (const line of splitter.push(bytes)) {
      if (tree === undefined) tree = new TreeCheck(readHeader(line), options);
      else {
        tree.add(line);
        if (tree.size % chunkRows === 0) await yieldToEventLoop();
      }
    }
  }
  if (tree === undefined) throw invalid('the file is not an export: it has no header');
  if (splitter.rest.length > 0) {
    throw invalid(
      `the export is truncated in record ${tree.size}: its checkpoint signs ${tree.checkpoint.size} records`,
    );
  }
  return tree.finish('the export');
}

/** Verifies the rows and hashes that a store holds against a checkpoint of it. */
export async function verifyLog(
  log: AuditLog,
  checkpoint: SignedCheckpoint,
  options: VerifyOptions & { readonly key: NoteVerifier },
  cosigned: readonly Cosigned[] = [],
): Promise<Verified> {
  const tree = new TreeCheck({ checkpoint, key: options.key, cosigned }, options);
  if (log.size < checkpoint.size) {
    throw invalid(
      `the log contains ${log.size} records, but its checkpoint signs ${checkpoint.size}: the last ones were removed`,
    );
  }
  while (tree.size < checkpoint.size) {
    const start = tree.size;
    const rows = await log.read(start, Math.min(chunkRows, checkpoint.size - start));
    if (rows.length === 0) break;
    const stored = await log.leafHashes(start, rows.length);
    rows.forEach((row, i) => {
      const leaf = tree.add(row);
      if (stored.compare(leaf, 0, hashBytes, i * hashBytes, (i + 1) * hashBytes) !== 0) {
        throw invalid(
          `record ${start + i} was changed: it no longer has the hash that was stored with it`,
        );
      }
    });
    await yieldToEventLoop();
  }
  return tree.finish('the log');
}

/** Verifies one event with its proof, as `hansa audit proof` writes it. */
export function verifyProof(
  text: string,
  options: Pick<VerifyOptions, 'key'> = {},
): Verified & { readonly event: AuditEvent; readonly index: number } {
  const file = readJson(text, proofFormat, 'a proof');
  const { index, event, inclusion } = file;
  if (
    typeof index !== 'number' ||
    typeof event !== 'string' ||
    !Array.isArray(inclusion) ||
    !inclusion.every((node) => typeof node === 'string')
  ) {
    throw invalid('the file is not a proof: index, event or inclusion is missing');
  }
  const signed = readSigned(file);
  const { key, trusted } = chooseKey(signed.key, options.key);
  verifyCheckpoint(signed.checkpoint, key);
  const row = Buffer.from(event);
  const parsed = parseEvent(row);
  const { origin, size, rootHash } = signed.checkpoint;
  const proof = inclusion.map((node: string) => Buffer.from(node, 'base64'));
  if (
    parsed.index !== index ||
    !verifyInclusion({ index, leafHash: leafHash(row), size, rootHash, proof })
  ) {
    throw invalid(
      `the proof does not show that this event is record ${index} of the log: the event or the proof was changed`,
    );
  }
  return { origin, size, rootHash, key, keyIsTrusted: trusted, cosigned: [], event: parsed, index };
}

interface Signed {
  readonly checkpoint: SignedCheckpoint;
  readonly key: NoteVerifier;
  readonly cosigned: readonly Cosigned[];
}

/** Rebuilds the tree record by record and compares it with the signed one. */
class TreeCheck {
  readonly checkpoint: SignedCheckpoint;
  readonly #key: NoteVerifier;
  readonly #trusted: boolean;
  readonly #earlier: SignedCheckpoint | undefined;
  readonly #progress: VerifyOptions['progress'];
  readonly #cosigned: readonly Cosigned[];
  readonly #witnesses: ReadonlySet<string>;
  readonly #frontier = Frontier.empty();

  constructor(signed: Signed, options: VerifyOptions) {
    const { key, trusted } = chooseKey(signed.key, options.key);
    verifyCheckpoint(signed.checkpoint, key);
    this.checkpoint = signed.checkpoint;
    this.#key = key;
    this.#trusted = trusted;
    this.#earlier = options.earlier;
    this.#progress = options.progress;
    this.#witnesses = new Set((options.witnesses ?? []).map(({ text }) => text));
    // Cosignatures of the log before a restore say nothing about this one.
    this.#cosigned = signed.cosigned.filter(
      (one) => one.checkpoint.origin === signed.checkpoint.origin,
    );
    for (const { checkpoint, witness } of this.#cosigned) {
      verifyCheckpoint(checkpoint, key);
      if (checkpoint.size > signed.checkpoint.size) {
        throw invalid(
          `the log was rolled back: ${witness.name} has cosigned ${checkpoint.size} records, and this checkpoint signs ${signed.checkpoint.size}`,
        );
      }
    }
    this.#compareCosigned();
    if (options.earlier !== undefined) {
      verifyCheckpoint(options.earlier, key);
      if (options.earlier.size > signed.checkpoint.size) {
        throw invalid(
          `the log was rolled back: an earlier checkpoint signs ${options.earlier.size} records, this one ${signed.checkpoint.size}`,
        );
      }
      this.#compareEarlier();
    }
  }

  get size(): number {
    return this.#frontier.size;
  }

  add(row: Buffer): Buffer {
    const index = this.#frontier.size;
    if (index >= this.checkpoint.size) {
      throw invalid(
        `there are records beyond the ${this.checkpoint.size} that the checkpoint signs: they were added`,
      );
    }
    checkIndex(row, index);
    const leaf = leafHash(row);
    this.#frontier.append(leaf);
    this.#compareEarlier();
    this.#compareCosigned();
    if (this.size % chunkRows === 0) this.#progress?.(this.size, this.checkpoint.size);
    return leaf;
  }

  finish(what: string): Verified {
    const { origin, size, rootHash } = this.checkpoint;
    if (this.size < size) {
      throw invalid(
        `${what} ends after ${this.size} records, but its checkpoint signs ${size}: it was truncated or records were removed`,
      );
    }
    if (!this.#frontier.root().equals(rootHash)) {
      throw invalid(
        `the ${size} records do not add up to the signed tree head: at least one was changed`,
      );
    }
    this.#progress?.(size, size);
    return {
      origin,
      size,
      rootHash,
      key: this.#key,
      keyIsTrusted: this.#trusted,
      cosigned: this.#cosigned.map(({ witness, checkpoint, timeSeconds }) => ({
        witness: witness.name,
        events: checkpoint.size,
        time: new Date(timeSeconds * 1000).toISOString(),
        keyIsTrusted: this.#witnesses.has(witness.text),
      })),
    };
  }

  #compareCosigned(): void {
    for (const { witness, checkpoint } of this.#cosigned) {
      if (checkpoint.size !== this.size) continue;
      if (!this.#frontier.root().equals(checkpoint.rootHash)) {
        throw invalid(
          `the first ${checkpoint.size} records are not those that ${witness.name} has cosigned: the log was rewritten and signed again`,
        );
      }
    }
  }

  #compareEarlier(): void {
    const earlier = this.#earlier;
    if (earlier === undefined || earlier.size !== this.size) return;
    if (!this.#frontier.root().equals(earlier.rootHash)) {
      throw invalid(
        `the first ${earlier.size} records are not those that an earlier checkpoint signed: the log was rewritten and signed again`,
      );
    }
  }
}

/** Canonical records carry their index at a known place: `{"time":"…24 characters…","index":N,` */
function checkIndex(row: Buffer, index: number): void {
  const expected = `,"index":${index},`;
  if (row.toString('latin1', 34, 34 + expected.length) === expected) return;
  const found = parseEvent(row).index;
  throw invalid(
    found > index
      ? `record ${index} is missing: record ${found} is in its place, so records were removed or reordered`
      : `record ${found} is in the place of record ${index}: records were inserted or reordered`,
  );
}

function readHeader(line: Buffer): Signed {
  return readSigned(readJson(line.toString('utf8'), exportFormat, 'an export'));
}

function readJson(text: string, format: string, what: string): Record<string, unknown> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw invalid(`the file is not ${what} of an audit log: it does not begin with JSON`);
  }
  if (typeof json !== 'object' || json === null || !('format' in json) || json.format !== format) {
    throw invalid(`the file is not ${what} of an audit log: its format is not ${format}`);
  }
  return { ...json };
}

function readSigned({ checkpoint, publicKey, cosigned }: Record<string, unknown>): Signed {
  if (typeof checkpoint !== 'string' || typeof publicKey !== 'string') {
    throw invalid('the file contains no checkpoint or no public key');
  }
  return {
    checkpoint: parseCheckpoint(checkpoint),
    key: parseVerifier(publicKey),
    cosigned: readCosigned(cosigned),
  };
}

/** Exports of earlier versions have none. */
function readCosigned(json: unknown): readonly Cosigned[] {
  if (json === undefined) return [];
  if (!Array.isArray(json) || json.length > mostCosignatures) {
    throw invalid(`the file has no list of at most ${mostCosignatures} cosigned checkpoints`);
  }
  return json.map((item: unknown) => {
    const { key, note } = (item ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof key !== 'string' || typeof note !== 'string') {
      throw invalid('a cosigned checkpoint of the file is malformed');
    }
    const witness = parseWitnessVerifier(key);
    const checkpoint = parseCheckpoint(note);
    const found = verifyCosignature(checkpoint, witness);
    if (found === undefined) throw invalid(`${witness.name} has not cosigned its checkpoint`);
    return { witness, checkpoint, timeSeconds: found.timeSeconds };
  });
}

function chooseKey(
  own: NoteVerifier,
  given: NoteVerifier | undefined,
): { readonly key: NoteVerifier; readonly trusted: boolean } {
  return given === undefined ? { key: own, trusted: false } : { key: given, trusted: true };
}

function invalid(why: string): HansaError {
  return new HansaError('HANSA_AUDIT_INVALID', `Cannot verify the audit log: ${why}.`);
}
