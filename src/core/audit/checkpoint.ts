// Signed checkpoints of the audit log: the note format of c2sp.org/signed-note with the body of
// c2sp.org/tlog-checkpoint. Reading keeps signatures of other keys, such as cosignatures of peers.

import {
  createPublicKey,
  hash,
  type KeyObject,
  sign as signWith,
  verify as verifyWith,
} from 'node:crypto';
import { HansaError } from '../errors/error.ts';
import { hashBytes } from '../merkle/tree.ts';

export interface Checkpoint {
  /** The log origin: the name of this log, and of the key that signs it. */
  readonly origin: string;
  readonly size: number;
  readonly rootHash: Buffer;
}

export interface NoteSignature {
  /** Name of the key. */
  readonly name: string;
  /** Four bytes that tell the key of a name. */
  readonly keyId: Buffer;
  readonly signature: Buffer;
}

export interface SignedCheckpoint extends Checkpoint {
  /** The whole note, as it is stored and passed on. */
  readonly note: string;
  /** What the signatures sign. */
  readonly body: string;
  readonly signatures: readonly NoteSignature[];
}

/** A log's public key, which others need to verify the log. */
export interface NoteVerifier {
  readonly name: string;
  readonly keyId: Buffer;
  readonly publicKey: KeyObject;
  /** The verifier key of signed-note: `name+keyid+base64(type || key)`. */
  readonly text: string;
}

/** Asynchronous, so that the key can live in another process. */
export interface NoteSigner {
  readonly verifier: NoteVerifier;
  sign(body: Uint8Array): Promise<Uint8Array>;
}

/** Signature type 0x01 of signed-note: Ed25519 over the body. */
const ed25519Type = 0x01;
/** The DER of an Ed25519 SubjectPublicKeyInfo up to the key (RFC 8410 §4). */
const ed25519Prefix = Buffer.from('302a300506032b6570032100', 'hex');

/** signed-note allows limits; ours leave ample room for a cosignature of every peer. */
const longestNoteChars = 64 * 1024;
const mostSignatures = 256;

/** The verifier of an Ed25519 public key given as its 32 bytes. */
export function noteVerifier(name: string, rawPublicKey: Uint8Array): NoteVerifier {
  if (!isKeyName(name)) throw invalid(`"${name}" cannot be the name of a key`);
  if (rawPublicKey.length !== 32) throw invalid('an Ed25519 public key has 32 bytes');
  const typed = Buffer.concat([Buffer.of(ed25519Type), rawPublicKey]);
  const keyId = hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), typed]), 'buffer').subarray(
    0,
    4,
  );
  return {
    name,
    keyId,
    publicKey: createPublicKey({
      key: Buffer.concat([ed25519Prefix, rawPublicKey]),
      format: 'der',
      type: 'spki',
    }),
    text: `${name}+${keyId.toString('hex')}+${typed.toString('base64')}`,
  };
}

/** Reads the text form of a verifier. */
export function parseVerifier(text: string): NoteVerifier {
  const parts = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(text.trim());
  if (parts === null) {
    throw invalid('a public key of a log looks like NAME+0123abcd+BASE64');
  }
  const typed = base64(parts[3] as string);
  if (typed === undefined || typed.length !== 33 || typed[0] !== ed25519Type) {
    throw invalid('the public key is not an Ed25519 key');
  }
  const verifier = noteVerifier(parts[1] as string, typed.subarray(1));
  if (verifier.keyId.toString('hex') !== parts[2]) {
    throw invalid('the public key does not match its own key ID: it was changed or cut');
  }
  return verifier;
}

/** A signer with an Ed25519 key in this process. */
export function noteSigner(name: string, privateKey: KeyObject): NoteSigner {
  if (privateKey.asymmetricKeyType !== 'ed25519') {
    throw new TypeError(`checkpoints are signed with Ed25519, not ${privateKey.asymmetricKeyType}`);
  }
  const spki = createPublicKey(privateKey).export({ format: 'der', type: 'spki' });
  return {
    verifier: noteVerifier(name, spki.subarray(ed25519Prefix.length)),
    sign: async (body) => signWith(null, body, privateKey),
  };
}

export async function signCheckpoint(
  signer: NoteSigner,
  head: { readonly size: number; readonly rootHash: Buffer },
): Promise<SignedCheckpoint> {
  const { verifier } = signer;
  const body = `${verifier.name}\n${head.size}\n${head.rootHash.toString('base64')}\n`;
  const signature = await signer.sign(Buffer.from(body));
  const line = Buffer.concat([verifier.keyId, signature]).toString('base64');
  return parseCheckpoint(`${body}\n— ${verifier.name} ${line}\n`);
}

/** Reads a note without verifying its signatures. */
export function parseCheckpoint(note: string): SignedCheckpoint {
  if (note.length > longestNoteChars) throw invalid('the checkpoint is too long');
  // oxlint-disable-next-line no-control-regex -- signed-note forbids all but the newline
  if (/[\u0000-\u0009\u000b-\u001f]/.test(note)) {
    throw invalid('the checkpoint contains control characters');
  }
  // The text may hold blank lines; the last one separates it from the signatures.
  const split = note.lastIndexOf('\n\n');
  if (split === -1 || !note.endsWith('\n')) throw invalid('the checkpoint has no signatures');
  const body = note.slice(0, split + 1);
  const lines = note.slice(split + 2, -1).split('\n');
  if (lines.length > mostSignatures) throw invalid('the checkpoint has too many signatures');
  const [origin = '', size = '', root = ''] = body.split('\n');
  const rootHash = base64(root);
  if (!isKeyName(origin)) throw invalid('the checkpoint names no log origin in its first line');
  if (!/^(?:0|[1-9]\d{0,15})$/.test(size) || !Number.isSafeInteger(Number(size))) {
    throw invalid('the second line of the checkpoint is not a tree size');
  }
  if (rootHash?.length !== hashBytes) {
    throw invalid('the third line of the checkpoint is not a SHA-256 hash in base64');
  }
  return {
    origin,
    size: Number(size),
    rootHash,
    note,
    body,
    signatures: lines.map(parseSignature),
  };
}

function parseSignature(line: string): NoteSignature {
  const parts = /^— (\S+) ([A-Za-z0-9+/=]+)$/.exec(line);
  const bytes = parts === null ? undefined : base64(parts[2] as string);
  if (parts === null || bytes === undefined || bytes.length < 5 || !isKeyName(parts[1] as string)) {
    throw invalid('a signature line of the checkpoint is malformed');
  }
  return { name: parts[1] as string, keyId: bytes.subarray(0, 4), signature: bytes.subarray(4) };
}

/** Throws HANSA_AUDIT_INVALID unless this key signed this checkpoint of its own log. */
export function verifyCheckpoint(checkpoint: SignedCheckpoint, verifier: NoteVerifier): void {
  if (checkpoint.origin !== verifier.name) {
    throw invalid(
      `the checkpoint belongs to the log ${checkpoint.origin}, but the key to the log ${verifier.name}`,
    );
  }
  const own = checkpoint.signatures.filter(
    ({ name, keyId }) => name === verifier.name && keyId.equals(verifier.keyId),
  );
  if (own.length === 0) {
    throw invalid(
      `the checkpoint has no signature by the key ${verifier.name}+${verifier.keyId.toString('hex')}`,
    );
  }
  // signed-note: signatures by a known key that do not verify make the note invalid.
  const body = Buffer.from(checkpoint.body);
  if (!own.every(({ signature }) => verifyWith(null, body, verifier.publicKey, signature))) {
    throw invalid(
      `the signature of ${verifier.name} on the checkpoint is forged or the checkpoint was changed`,
    );
  }
}

/** signed-note: not empty, no Unicode spaces, no plus. */
function isKeyName(name: string): boolean {
  return name.length <= 512 && /^[^\s+\p{Z}]+$/u.test(name);
}

/** Strict: only what encodes back to the same text. */
function base64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

function invalid(why: string): HansaError {
  return new HansaError('HANSA_AUDIT_INVALID', `Cannot verify the audit log: ${why}.`);
}
