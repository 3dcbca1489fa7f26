// Verifies a file of `hansa audit export` or `hansa audit proof`, and says who cosigned the log.

import { createReadStream } from 'node:fs';
import { proofFormat } from '../../core/audit/export.ts';
import { LineSplitter } from '../../core/audit/lines.ts';
import type { NoteVerifier } from '../../core/audit/note.ts';
import type { Verified, VerifyOptions } from '../../core/audit/signed-head.ts';
import { verifyExport, verifyProof } from '../../core/audit/verify.ts';
import { printable } from '../../core/command/columns.ts';
import { HansaError } from '../../core/errors/error.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { usageError } from '../../core/command/usage-error.ts';

/** A log, or events of a log. */
export interface VerifiedFile extends Verified {
  /** The indexes of the proven events, in order. Absent for a whole log. */
  readonly proofs?: readonly number[];
}

/** A proof is one small JSON file. Any other file must be an export. */
export async function verifyFile(path: string, options: VerifyOptions): Promise<VerifiedFile> {
  const mostProofBytes = 512 * 1024;
  const head = await readHead(path, mostProofBytes);
  if (head.startsWith(`{"format":"${proofFormat}"`)) return verifyProofs(path, options);
  if (head.length < mostProofBytes && head.includes(`"format":"${proofFormat}"`)) {
    const proven = verifyProof(head, options);
    return { ...proven, proofs: [proven.index] };
  }
  return verifyExport(createReadStream(path), options);
}

/** One proof a line, as `hansa audit export --peer` writes them: of one log, and in order. */
async function verifyProofs(path: string, options: VerifyOptions): Promise<VerifiedFile> {
  const splitter = new LineSplitter(mostProofLineBytes);
  const proofs: number[] = [];
  let first: Verified | undefined;
  const check = (line: Buffer): void => {
    const proven = verifyProof(line.toString('utf8'), options);
    first ??= proven;
    if (proven.size !== first.size || !proven.rootHash.equals(first.rootHash)) {
      throw unordered('its proofs belong to different checkpoints');
    }
    if (proven.index <= (proofs.at(-1) ?? -1)) {
      throw unordered(`event ${proven.index} is there twice, or out of order`);
    }
    proofs.push(proven.index);
  };
  for await (const chunk of createReadStream(path)) {
    for (const line of splitter.push(chunk as Buffer)) check(line);
  }
  if (splitter.rest.length > 0) check(splitter.rest);
  return { ...(first as Verified), proofs };
}

function unordered(why: string): HansaError {
  return new HansaError('HANSA_AUDIT_INVALID', `Cannot verify the file: ${why}.`);
}

const mostProofLineBytes = 1024 * 1024;

async function readHead(path: string, bytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of createReadStream(path, { end: bytes })) chunks.push(chunk as Buffer);
  } catch (error) {
    throw usageError(`Cannot read ${path}: ${fileProblem(error)}.`);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Who cosigned up to which event, and which events no witness has cosigned yet. */
export function witnessLines({ cosigned, size }: Pick<Verified, 'cosigned' | 'size'>): string[] {
  const lines = cosigned.map(
    ({ witness, events, time }) =>
      `cosigned by ${printable(witness)} up to event ${events - 1}, at ${time.replace(/\.\d+Z$/, 'Z')}`,
  );
  const most = Math.max(0, ...cosigned.map(({ events }) => events));
  if (most === 0) return ['not yet witnessed: no peer has cosigned this log'];
  if (most < size) {
    const [first, last] = [most, size - 1];
    lines.push(
      first === last
        ? `not yet witnessed: event ${first}`
        : `not yet witnessed: events ${first} to ${last}`,
    );
  }
  return lines;
}

/** Throws HANSA_AUDIT_INVALID where a witness that the caller gave has not cosigned: a forger can leave it out. */
export function requireWitnesses(
  { origin, cosigned }: Pick<Verified, 'origin' | 'cosigned'>,
  given: readonly Pick<NoteVerifier, 'name'>[],
): void {
  const trusted = new Set(
    cosigned.filter(({ keyIsTrusted }) => keyIsTrusted).map(({ witness }) => witness),
  );
  const missing = given.filter(({ name }) => !trusted.has(name));
  if (missing.length === 0) return;
  const names = missing.map(({ name }) => printable(name)).join(', ');
  throw new HansaError(
    'HANSA_AUDIT_INVALID',
    `Cannot verify that ${names} witnessed the log of ${origin}: it has no cosignature by that key from --witness.`,
  );
}

/** Which cosignatures prove nothing to the caller: a forger of a file can add some with other keys. */
export function witnessNotes({ cosigned }: Pick<Verified, 'cosigned'>): string[] {
  return cosigned
    .filter(({ keyIsTrusted }) => !keyIsTrusted)
    .map(
      ({ witness }) =>
        `The cosignature of ${printable(witness)} was verified with the key that the log itself names. Pass the output of hansa audit checkpoint --key at ${printable(witness)} with --witness.`,
    );
}
