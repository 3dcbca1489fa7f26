// Exports the log as a file that can be verified offline: one line of JSON with the public key and
// the checkpoint, then all records, one per line, byte for byte as they were hashed. The checkpoint
// comes first, so that verification detects a truncated file.

import type { AuditLog } from '../store/store.ts';
import type { SignedCheckpoint } from './checkpoint.ts';
import type { Cosigned } from './cosignatures.ts';
import { mostCosignatures, type NoteVerifier } from './note.ts';
import type { EventProof } from './log.ts';
import { inclusionProof } from './proof.ts';
import { matchingRows, readRange } from './query.ts';

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
}

const chunkRows = 1024;
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
  for (let start = 0; start < checkpoint.size; start += chunkRows) {
    const rows = await readRange(log, start, Math.min(start + chunkRows, checkpoint.size));
    yield Buffer.concat(rows.flatMap((row) => [row, newline]));
  }
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

export function proofFile(proven: EventProof, verifier: NoteVerifier): ProofFile {
  return {
    format: proofFormat,
    publicKey: verifier.text,
    checkpoint: proven.checkpoint.note,
    index: proven.index,
    event: proven.row.toString('utf8'),
    inclusion: proven.proof.map((node) => node.toString('base64')),
  };
}

/** The events that concern one peer, one proof a line, as `hansa audit proof` writes it. */
export async function* exportPeer(
  log: AuditLog,
  checkpoint: SignedCheckpoint,
  verifier: NoteVerifier,
  peer: string,
): AsyncGenerator<Buffer> {
  for await (const { index, row } of matchingRows(log, { peer }, checkpoint.size)) {
    const proof = await inclusionProof(log, index, checkpoint.size);
    yield Buffer.from(
      `${JSON.stringify(proofFile({ index, row, checkpoint, proof }, verifier))}\n`,
    );
  }
}
