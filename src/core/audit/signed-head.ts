// Reads the signed head of a log, an export or a proof, and judges it against what the caller knows from
// elsewhere: the key of the log, an earlier checkpoint, and the keys of witnesses.

import { HansaError } from '../errors/error.ts';
import { parseCheckpoint, type SignedCheckpoint, verifyCheckpoint } from './checkpoint.ts';
import { parseWitnessVerifier, verifyCosignature } from './cosignature.ts';
import type { Cosigned } from './cosignatures.ts';
import { mostCosignatures, type NoteVerifier, parseVerifier } from './note.ts';

/** What the caller knows. No field is optional, so that no command and no format can drop one unnoticed. */
export interface VerifyOptions {
  /** The log's public key, known from elsewhere. Without it the file's own key is used and reported. */
  readonly key: NoteVerifier | undefined;
  /**
   * An earlier checkpoint: the log must extend the tree that it signed. This detects a log that was
   * rewritten and signed again.
   */
  readonly earlier: SignedCheckpoint | undefined;
  /** Keys of witnesses, known from elsewhere. */
  readonly witnesses: readonly NoteVerifier[];
  readonly progress: ((rows: number, total: number) => void) | undefined;
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

export interface Signed {
  readonly checkpoint: SignedCheckpoint;
  readonly key: NoteVerifier;
  readonly cosigned: readonly Cosigned[];
}

/** A tree that the log must extend, as somebody saw and signed it. */
export interface EarlierTree {
  readonly size: number;
  readonly rootHash: Buffer;
  /** Completes `the first 100 records are not those that …`. */
  readonly seenBy: string;
}

/** A head whose signatures verify. It still says nothing about records. */
export interface SignedHead {
  /** The result, once the records are verified. */
  readonly claim: Verified;
  readonly earlierTrees: readonly EarlierTree[];
  readonly progress: VerifyOptions['progress'];
}

/** Verifies all signatures. Throws HANSA_AUDIT_INVALID. */
export function judgeHead(signed: Signed, options: VerifyOptions): SignedHead {
  const { key: givenKey, earlier, witnesses, progress, ...unread } = options;
  // A new option that nothing judges does not compile.
  unread satisfies Record<string, never>;
  const key = givenKey ?? signed.key;
  const { checkpoint } = signed;
  verifyCheckpoint(checkpoint, key);
  const { origin, size, rootHash } = checkpoint;
  if (earlier !== undefined) verifyCheckpoint(earlier, key);
  const trusted = new Set(witnesses.map(({ text }) => text));
  // Cosignatures of the log before a restore say nothing about this one.
  const cosigned = signed.cosigned.filter((one) => one.checkpoint.origin === origin);
  for (const { checkpoint: held, witness } of cosigned) {
    verifyCheckpoint(held, key);
    if (held.size > size) {
      throw invalid(
        `the log was rolled back: ${witness.name} has cosigned ${held.size} records, and this checkpoint signs ${size}`,
      );
    }
  }
  return {
    claim: {
      origin,
      size,
      rootHash,
      key,
      keyIsTrusted: givenKey !== undefined,
      cosigned: cosigned.map(({ witness, checkpoint: held, timeSeconds }) => ({
        witness: witness.name,
        events: held.size,
        time: new Date(timeSeconds * 1000).toISOString(),
        keyIsTrusted: trusted.has(witness.text),
      })),
    },
    earlierTrees: [
      ...(earlier === undefined ? [] : [{ ...earlier, seenBy: 'an earlier checkpoint signed' }]),
      ...cosigned.map(({ witness, checkpoint: held }) => ({
        ...held,
        seenBy: `${witness.name} has cosigned`,
      })),
    ],
    progress,
  };
}

export function rewritten({ size, seenBy }: EarlierTree): HansaError {
  return invalid(
    `the first ${size} records are not those that ${seenBy}: the log was rewritten and signed again`,
  );
}

export function readJson(text: string, format: string, what: string): Record<string, unknown> {
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

/** Reads without verifying signatures, except those of witnesses. */
export function readSigned({ checkpoint, publicKey, cosigned }: Record<string, unknown>): Signed {
  if (typeof checkpoint !== 'string' || typeof publicKey !== 'string') {
    throw invalid('the file contains no checkpoint or no public key');
  }
  return {
    checkpoint: parseCheckpoint(checkpoint),
    key: parseVerifier(publicKey),
    cosigned: readCosigned(cosigned),
  };
}

/** Proofs have none. */
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

export function invalid(why: string): HansaError {
  return new HansaError('HANSA_AUDIT_INVALID', `Cannot verify the audit log: ${why}.`);
}
