// Exports the log as a file that can be verified offline: one line of JSON with the public key and
// the checkpoint, then all records, one per line, byte for byte as they were hashed. The checkpoint
// comes first, so that verification detects a truncated file. After each 1024 records, a line has the hashes
// that the site stored with them, so that verification names a record that was changed.

import { HansaError } from '../errors/error.ts';
import type { AuditLog } from '../store/store.ts';
import type { SignedCheckpoint } from './checkpoint.ts';
import type { Cosigned } from './cosignatures.ts';
import { base64, mostCosignatures, type NoteVerifier } from './note.ts';
import type { EventProof } from './log.ts';
import { consistencyProof, inclusionProof } from './proof.ts';
import { matchingRows, readRange } from './query.ts';
import { invalid } from './signed-head.ts';
import { mostRowsAtOnce } from './tree-check.ts';

export const exportFormat = 'hansa-audit-export/1';
export const proofFormat = 'hansa-audit-proof/1';

export interface ExportHeader {
  readonly format: typeof exportFormat;
  readonly publicKey: string;
  readonly checkpoint: string;
  /** The newest checkpoint that each witness has cosigned. */
  readonly cosigned: readonly CosignedNote[];
}

export interface CosignedNote {
  /** The verifier key of the witness, as the site knows it. */
  readonly key: string;
  readonly note: string;
}

/** One event with its proof, as `hansa audit proof` writes it. */
export interface ProofFile {
  readonly format: typeof proofFormat;
  readonly publicKey: string;
  readonly checkpoint: string;
  readonly index: number;
  /** The record as text; its UTF-8 bytes are the leaf. */
  readonly event: string;
  /** The inclusion path of RFC 6962 §2.1.1 in base64, deepest first. */
  readonly inclusion: readonly string[];
  /** Absent unless the caller asked for it. */
  readonly consistency?: ConsistencyFile;
}

/** The path of RFC 6962 §2.1.2 from the tree of an earlier checkpoint, in base64, deepest first. */
export interface ConsistencyFile {
  /** How many records the earlier checkpoint signs. */
  readonly from: number;
  readonly proof: readonly string[];
}

/** Half of the longest line of an export. */
const mostCosignedChars = 128 * 1024;
const newline = Buffer.from('\n');

/** The file in chunks of at most about a megabyte, with as many records as the checkpoint signs. */
export async function* exportLog(
  log: AuditLog,
  checkpoint: SignedCheckpoint,
  verifier: NoteVerifier,
  cosigned: readonly Cosigned[] = [],
): AsyncGenerator<Buffer> {
  const header: ExportHeader = {
    format: exportFormat,
    publicKey: verifier.text,
    checkpoint: checkpoint.note,
    cosigned: cosignedNotes(checkpoint, cosigned),
  };
  yield Buffer.from(`${JSON.stringify(header)}\n`);
  for (let start = 0; start < checkpoint.size; start += mostRowsAtOnce) {
    const count = Math.min(mostRowsAtOnce, checkpoint.size - start);
    const rows = await readRange(log, start, start + count);
    const hashes = hashLine(await log.leafHashes(start, count));
    yield Buffer.concat([...rows, hashes].flatMap((line) => [line, newline]));
  }
}

/** Records begin with their time. */
const hashLineHead = Buffer.from('{"leafHashes":"');

function hashLine(hashes: Buffer): Buffer {
  return Buffer.from(JSON.stringify({ leafHashes: hashes.toString('base64') }));
}

export function isHashLine(line: Buffer): boolean {
  return line.subarray(0, hashLineHead.length).equals(hashLineHead);
}

/** The hashes of a line that `isHashLine` accepts. */
export function readHashLine(line: Buffer): Buffer {
  const text = line.toString('latin1', hashLineHead.length);
  const hashes = text.endsWith('"}') ? base64(text.slice(0, -2)) : undefined;
  if (hashes === undefined) throw invalid('a line with hashes of records is malformed');
  return hashes;
}

/** Those of this log up to this checkpoint, as many as fit into a line. */
function cosignedNotes(
  { origin, size }: SignedCheckpoint,
  cosigned: readonly Cosigned[],
): readonly CosignedNote[] {
  let chars = 0;
  return cosigned
    .filter(({ checkpoint }) => checkpoint.origin === origin && checkpoint.size <= size)
    .map(({ witness, checkpoint }) => ({ key: witness.text, note: checkpoint.note }))
    .slice(0, mostCosignatures)
    .filter(({ key, note }) => (chars += key.length + note.length) <= mostCosignedChars);
}

/** With `earlierSize`, also with the proof that its checkpoint extends the tree of that many records. */
export async function proofFile(
  log: AuditLog,
  proven: EventProof,
  verifier: NoteVerifier,
  earlierSize: number | undefined,
): Promise<ProofFile> {
  return oneProof(proven, verifier, await consistencyFile(log, proven.checkpoint, earlierSize));
}

function oneProof(
  { checkpoint, index, row, proof }: EventProof,
  verifier: NoteVerifier,
  consistency: ConsistencyFile | undefined,
): ProofFile {
  return {
    format: proofFormat,
    publicKey: verifier.text,
    checkpoint: checkpoint.note,
    index,
    event: row.toString('utf8'),
    inclusion: proof.map((node) => node.toString('base64')),
    ...(consistency === undefined ? {} : { consistency }),
  };
}

async function consistencyFile(
  log: AuditLog,
  { size }: SignedCheckpoint,
  from: number | undefined,
): Promise<ConsistencyFile | undefined> {
  if (from === undefined) return undefined;
  if (from > size) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot prove that the log extends a checkpoint of ${from} records: it has ${size}. The checkpoint is of another log, or this log was rolled back.`,
    );
  }
  const proof = await consistencyProof(log, from, size);
  return { from, proof: proof.map((node) => node.toString('base64')) };
}

/** The events that concern one peer, one proof a line, as `hansa audit proof` writes it. */
export async function* exportPeer(
  log: AuditLog,
  checkpoint: SignedCheckpoint,
  verifier: NoteVerifier,
  { peer, earlierSize }: { readonly peer: string; readonly earlierSize: number | undefined },
): AsyncGenerator<Buffer> {
  const consistency = await consistencyFile(log, checkpoint, earlierSize);
  for await (const { index, row } of matchingRows(log, { peer }, checkpoint.size)) {
    const proof = await inclusionProof(log, index, checkpoint.size);
    const file = oneProof({ index, row, checkpoint, proof }, verifier, consistency);
    yield Buffer.from(`${JSON.stringify(file)}\n`);
  }
}
