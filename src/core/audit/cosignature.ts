// Cosignatures of checkpoints (c2sp.org/tlog-cosignature, cosignature/v1): a witness states that at
// this time this was the largest tree head that it knew of the log, and that it extends all earlier ones.

import { verify as verifyWith } from 'node:crypto';
import { parseCheckpoint, type SignedCheckpoint } from './checkpoint.ts';
import { siteOfOrigin } from './introduction.ts';
import {
  invalidNote,
  mostCosignatures,
  type NoteSignature,
  type NoteSigner,
  type NoteVerifier,
  noteVerifier,
  parseVerifier,
  rawPublicKeyOf,
  signatureLine,
  signaturesBy,
  signatureTypes,
} from './note.ts';

export interface Cosignature {
  /** The name of the witness. */
  readonly witness: string;
  /** When it cosigned, by its own clock. */
  readonly timeSeconds: number;
}

/** Eight bytes of time and 64 of Ed25519. */
const signatureBytes = 72;
const timeBytes = 8;
/** The last moment that a date can have (ECMA-262 §21.4.1.1). A later time is no time of a clock. */
const latestTimeSeconds = 8_640_000_000_000;

/** By the key of the log. Making one costs as much as a signature. */
const witnessVerifiers = new WeakMap<NoteVerifier, NoteVerifier>();

/** The key of a log as the key of a witness. It has another key ID, and it signs another message. */
export function witnessVerifier(name: string, log: NoteVerifier): NoteVerifier {
  const known = witnessVerifiers.get(log);
  if (known?.name === name) return known;
  const made = noteVerifier(name, rawPublicKeyOf(log), signatureTypes.cosignature);
  witnessVerifiers.set(log, made);
  return made;
}

/** Reads the text form of a verifier with type 0x04. */
export function parseWitnessVerifier(text: string): NoteVerifier {
  return parseVerifier(text, signatureTypes.cosignature);
}

/** Also reads the key of a log (type 0x01), because a site cosigns with the key of its own log. */
export function parseWitnessKey(text: string): NoteVerifier {
  let log: NoteVerifier;
  try {
    log = parseVerifier(text);
  } catch {
    return parseWitnessVerifier(text);
  }
  return witnessVerifier(siteOfOrigin(log.name), log);
}

/** Cosigns as the witness of this name. The caller has persisted the size and root before. */
export async function cosign(
  checkpoint: SignedCheckpoint,
  witness: string,
  signer: NoteSigner,
  timeSeconds: number,
): Promise<NoteSignature> {
  const { name, keyId } = witnessVerifier(witness, signer.verifier);
  const time = Buffer.alloc(timeBytes);
  time.writeBigUInt64BE(BigInt(timeSeconds));
  const signed = await signer.sign(messageOf(checkpoint, timeSeconds));
  return { name, keyId, signature: Buffer.concat([time, signed]) };
}

/**
 * The newest cosignature of this witness; undefined if there is none. Throws HANSA_AUDIT_INVALID for one
 * that does not verify.
 */
export function verifyCosignature(
  checkpoint: SignedCheckpoint,
  witness: NoteVerifier,
): Cosignature | undefined {
  const times = signaturesBy(checkpoint, witness).map(({ signature }) => {
    const time = signature.length === signatureBytes ? signature.readBigUInt64BE(0) : undefined;
    const timeSeconds = Number(time);
    if (
      time === undefined ||
      timeSeconds > latestTimeSeconds ||
      !verifyWith(
        null,
        messageOf(checkpoint, timeSeconds),
        witness.publicKey,
        signature.subarray(timeBytes),
      )
    ) {
      throw invalidNote(
        `the cosignature of ${witness.name} is forged, or the checkpoint was changed`,
      );
    }
    return timeSeconds;
  });
  return times.length === 0
    ? undefined
    : { witness: witness.name, timeSeconds: Math.max(...times) };
}

/** Adds signatures to a note. A new one replaces those of the same key. */
export function withSignatures(
  checkpoint: SignedCheckpoint,
  added: readonly NoteSignature[],
): SignedCheckpoint {
  const keyOf = ({ name, keyId }: NoteSignature): string => `${name}+${keyId.toString('hex')}`;
  const byKey = new Map([...checkpoint.signatures, ...added].map((one) => [keyOf(one), one]));
  if (byKey.size > mostCosignatures + 1) {
    throw invalidNote(`a checkpoint has at most ${mostCosignatures} cosignatures`);
  }
  return parseCheckpoint(`${checkpoint.body}\n${[...byKey.values()].map(signatureLine).join('')}`);
}

function messageOf({ body }: SignedCheckpoint, timeSeconds: number): Buffer {
  return Buffer.from(`cosignature/v1\ntime ${timeSeconds}\n${body}`);
}
