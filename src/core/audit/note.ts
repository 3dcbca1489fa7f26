// Signed notes (c2sp.org/signed-note): a text with signatures of named keys. Checkpoints, cosignatures
// and restore records are notes.

import {
  createPublicKey,
  hash,
  type KeyObject,
  sign as signWith,
  verify as verifyWith,
} from 'node:crypto';
import { HansaError } from '../errors/error.ts';

export interface NoteSignature {
  /** Name of the key. */
  readonly name: string;
  /** Four bytes that tell the key of a name. */
  readonly keyId: Buffer;
  readonly signature: Buffer;
}

export interface SignedNote {
  /** The whole note, as it is stored and passed on. */
  readonly note: string;
  /** What the signatures sign. */
  readonly body: string;
  readonly signatures: readonly NoteSignature[];
}

/** A public key of a log or of a witness. */
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

/** Signature types of signed-note. */
export const signatureTypes = {
  /** Ed25519 over the body. */
  ed25519: 0x01,
  /** c2sp.org/tlog-cosignature: Ed25519 over a time and the body of a checkpoint. */
  cosignature: 0x04,
} as const;
export type SignatureType = (typeof signatureTypes)[keyof typeof signatureTypes];

/** The DER of an Ed25519 SubjectPublicKeyInfo up to the key (RFC 8410 §4). */
const ed25519Prefix = Buffer.from('302a300506032b6570032100', 'hex');

/** Most cosignatures of one note. A note may have one more signature, that of the log. */
export const mostCosignatures = 256;
/** Room for that many signatures of keys with the longest name of a trust domain. */
const longestNoteChars = 128 * 1024;

/** The verifier of an Ed25519 public key given as its 32 bytes. */
export function noteVerifier(
  name: string,
  rawPublicKey: Uint8Array,
  type: SignatureType = signatureTypes.ed25519,
): NoteVerifier {
  if (!isKeyName(name)) throw invalidNote(`"${name}" cannot be the name of a key`);
  if (rawPublicKey.length !== 32) throw invalidNote('an Ed25519 public key has 32 bytes');
  const typed = Buffer.concat([Buffer.of(type), rawPublicKey]);
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

/** Reads the text form of a verifier of one type. */
export function parseVerifier(
  text: string,
  type: SignatureType = signatureTypes.ed25519,
): NoteVerifier {
  const parts = /^([^+]{1,512})\+([0-9a-f]{8})\+([A-Za-z0-9+/=]{1,64})$/.exec(text.trim());
  if (parts === null) {
    throw invalidNote('a public key of a log looks like NAME+0123abcd+BASE64');
  }
  const typed = base64(parts[3] as string);
  if (typed?.length !== 33 || typed[0] !== type) {
    throw invalidNote(
      type === signatureTypes.cosignature
        ? 'the public key is not an Ed25519 key for cosignatures'
        : 'the public key is not an Ed25519 key of a log',
    );
  }
  const verifier = noteVerifier(parts[1] as string, typed.subarray(1), type);
  if (verifier.keyId.toString('hex') !== parts[2]) {
    throw invalidNote('the public key does not match its own key ID: it was changed or cut');
  }
  return verifier;
}

/** The 32 bytes of the key of a verifier. */
export function rawPublicKeyOf({ publicKey }: Pick<NoteVerifier, 'publicKey'>): Buffer {
  return publicKey.export({ format: 'der', type: 'spki' }).subarray(ed25519Prefix.length);
}

/** A signer with an Ed25519 key in this process. */
export function noteSigner(name: string, privateKey: KeyObject): NoteSigner {
  if (privateKey.asymmetricKeyType !== 'ed25519') {
    throw new TypeError(`checkpoints are signed with Ed25519, not ${privateKey.asymmetricKeyType}`);
  }
  return {
    verifier: noteVerifier(name, rawPublicKeyOf({ publicKey: createPublicKey(privateKey) })),
    sign: async (body) => signWith(null, body, privateKey),
  };
}

/** A new note. The body ends with a newline. */
export async function signNote(signer: NoteSigner, body: string): Promise<SignedNote> {
  const { name, keyId } = signer.verifier;
  const signature = Buffer.from(await signer.sign(Buffer.from(body)));
  return parseNote(`${body}\n${signatureLine({ name, keyId, signature })}`);
}

/** With its newline. */
export function signatureLine({ name, keyId, signature }: NoteSignature): string {
  return `— ${name} ${Buffer.concat([keyId, signature]).toString('base64')}\n`;
}

/** Reads a note without verifying its signatures. */
export function parseNote(note: string): SignedNote {
  if (note.length > longestNoteChars) throw invalidNote('the checkpoint is too long');
  // oxlint-disable-next-line no-control-regex -- signed-note forbids all but the newline
  if (/[\u0000-\u0009\u000b-\u001f]/.test(note)) {
    throw invalidNote('the checkpoint contains control characters');
  }
  // The text may hold blank lines; the last one separates it from the signatures.
  const split = note.lastIndexOf('\n\n');
  if (split === -1 || !note.endsWith('\n')) throw invalidNote('the checkpoint has no signatures');
  const lines = note.slice(split + 2, -1).split('\n');
  if (lines.length > mostCosignatures + 1) {
    throw invalidNote(`the checkpoint has more than ${mostCosignatures} cosignatures`);
  }
  return { note, body: note.slice(0, split + 1), signatures: lines.map(parseSignature) };
}

/** Signatures of unknown keys count for nothing, but may be long: those of ML-DSA-87 have 4627 bytes. */
function parseSignature(line: string): NoteSignature {
  const parts = /^— (\S{1,512}) ([A-Za-z0-9+/=]{1,8192})$/.exec(line);
  const bytes = parts === null ? undefined : base64(parts[2] as string);
  if (parts === null || bytes === undefined || bytes.length < 5 || !isKeyName(parts[1] as string)) {
    throw invalidNote('a signature line of the checkpoint is malformed');
  }
  return { name: parts[1] as string, keyId: bytes.subarray(0, 4), signature: bytes.subarray(4) };
}

/** The signatures of the key, by its name and key ID. */
export function signaturesBy(
  { signatures }: SignedNote,
  { name, keyId }: NoteVerifier,
): readonly NoteSignature[] {
  return signatures.filter((one) => one.name === name && one.keyId.equals(keyId));
}

/** Throws HANSA_AUDIT_INVALID unless this key signed this note. */
export function verifyNote(note: SignedNote, verifier: NoteVerifier): void {
  const own = signaturesBy(note, verifier);
  if (own.length === 0) {
    throw invalidNote(
      `the checkpoint has no signature by the key ${verifier.name}+${verifier.keyId.toString('hex')}`,
    );
  }
  // signed-note: signatures by a known key that do not verify make the note invalid.
  const body = Buffer.from(note.body);
  if (!own.every(({ signature }) => verifyWith(null, body, verifier.publicKey, signature))) {
    throw invalidNote(
      `the signature of ${verifier.name} on the checkpoint is forged or the checkpoint was changed`,
    );
  }
}

/** signed-note: not empty, no Unicode spaces, no plus. */
export function isKeyName(name: string): boolean {
  return name.length <= 512 && /^[^\s+\p{Z}]+$/u.test(name);
}

/** Strict: only what encodes back to the same text. */
export function base64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

export function invalidNote(why: string): HansaError {
  return new HansaError('HANSA_AUDIT_INVALID', `Cannot verify the audit log: ${why}.`);
}
