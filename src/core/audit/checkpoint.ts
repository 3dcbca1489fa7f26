// Signed checkpoints of the audit log: notes with the body of c2sp.org/tlog-checkpoint. Reading keeps
// signatures of other keys, such as cosignatures of peers.

import { hashBytes } from '../merkle/tree.ts';
import {
  base64,
  invalidNote,
  isKeyName,
  type NoteSigner,
  type NoteVerifier,
  parseNote,
  type SignedNote,
  signNote,
  verifyNote,
} from './note.ts';

export interface Checkpoint {
  /** The log origin: the name of this log, and of the key that signs it. */
  readonly origin: string;
  readonly size: number;
  readonly rootHash: Buffer;
}

export interface SignedCheckpoint extends Checkpoint, SignedNote {}

export async function signCheckpoint(
  signer: NoteSigner,
  head: { readonly size: number; readonly rootHash: Buffer },
): Promise<SignedCheckpoint> {
  const body = `${signer.verifier.name}\n${head.size}\n${head.rootHash.toString('base64')}\n`;
  return parseCheckpoint((await signNote(signer, body)).note);
}

/** Reads a note without verifying its signatures. */
export function parseCheckpoint(note: string): SignedCheckpoint {
  const signed = parseNote(note);
  const [origin = '', size = '', root = ''] = signed.body.split('\n', 3);
  const rootHash = base64(root);
  if (!isKeyName(origin)) throw invalidNote('the checkpoint names no log origin in its first line');
  if (!/^(?:0|[1-9]\d{0,15})$/.test(size) || !Number.isSafeInteger(Number(size))) {
    throw invalidNote('the second line of the checkpoint is not a tree size');
  }
  if (rootHash?.length !== hashBytes) {
    throw invalidNote('the third line of the checkpoint is not a SHA-256 hash in base64');
  }
  return { origin, size: Number(size), rootHash, ...signed };
}

/** Throws HANSA_AUDIT_INVALID unless this key signed this checkpoint of its own log. */
export function verifyCheckpoint(checkpoint: SignedCheckpoint, verifier: NoteVerifier): void {
  if (checkpoint.origin !== verifier.name) {
    throw invalidNote(
      `the checkpoint belongs to the log ${checkpoint.origin}, but the key to the log ${verifier.name}`,
    );
  }
  verifyNote(checkpoint, verifier);
}
