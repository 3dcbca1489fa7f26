// The part of a heartbeat about audit logs: a checkpoint of the sender's log, proofs for the receiver, the
// receiver's checkpoint that the sender holds with its cosignature, and checkpoints of others.

import { parseCheckpoint, type SignedCheckpoint } from '../../core/audit/checkpoint.ts';
import { longestIntroductionChars } from '../../core/audit/introduction.ts';
import { longestRestoreChars } from '../../core/audit/restore-record.ts';
import { hasCode, HansaError } from '../../core/errors/error.ts';
import { hashBytes } from '../../core/merkle/tree.ts';

/** A proof of a tree of 2^53 records has fewer hashes. */
const mostHashes = 64;
/** The size that the receiver holds, and its `asks`. */
const mostProofs = 4;
export const mostAsks = 3;
/** A site passes on at most this many checkpoints of others in a heartbeat. */
export const mostPassedOn = 8;
/** Two signatures with the longest names of trust domains. */
const longestCheckpointChars = 2048;
/** Above the largest part that a site sends: with it, offers still fit into a heartbeat. */
export const maxLogPartBytes = 18 * 1024;

export interface LogProof {
  /** The size of the tree that the sender's checkpoint extends. */
  readonly from: number;
  readonly hashes: readonly Buffer[];
}

export interface LogPart {
  /** The key of the sender's log, until the receiver holds a checkpoint of it. */
  readonly introduction?: string;
  /** Absent if the sender no longer signs its log. */
  readonly checkpoint?: SignedCheckpoint;
  readonly proofs: readonly LogProof[];
  /** The newest checkpoint of the receiver that the sender holds, cosigned unless the sender has a reason. */
  readonly held?: SignedCheckpoint;
  /** Which `held` of the receiver the sender knew when it made this part. */
  readonly seen?: number;
  /** More sizes of the receiver's log that the sender wants proofs from. */
  readonly asks: readonly number[];
  /** Whether the sender passes on checkpoints of others, and wants them. */
  readonly passesOn: boolean;
  readonly others: readonly SignedCheckpoint[];
  /** The record of the last restore of the sender. */
  readonly restored?: string;
}

/** The JSON of a part. */
export function encodeLogPart(part: LogPart): object {
  return {
    ...part,
    ...(part.checkpoint === undefined ? {} : { checkpoint: part.checkpoint.note }),
    ...(part.held === undefined ? {} : { held: part.held.note }),
    proofs: part.proofs.map(({ from, hashes }) => ({
      from,
      hashes: hashes.map((hash) => hash.toString('base64url')),
    })),
    others: part.others.map(({ note }) => note),
  };
}

/** Throws HANSA_BAD_REQUEST. Signatures are not verified here. */
export function parseLogPart(value: unknown): LogPart {
  const fields = objectOf(value);
  const { introduction, checkpoint, held, seen, restored } = fields;
  return {
    ...(introduction === undefined
      ? {}
      : { introduction: textOf('introduction', introduction, longestIntroductionChars) }),
    ...(checkpoint === undefined ? {} : { checkpoint: checkpointOf('checkpoint', checkpoint) }),
    proofs: listOf('proofs', fields['proofs'], mostProofs).map((item) => {
      const { from, hashes } = objectOf(item);
      return {
        from: sizeOf('from', from),
        hashes: listOf('hashes', hashes, mostHashes).map(hashOf),
      };
    }),
    ...(held === undefined ? {} : { held: checkpointOf('held', held) }),
    ...(seen === undefined ? {} : { seen: sizeOf('seen', seen) }),
    asks: listOf('asks', fields['asks'], mostAsks).map((item) => sizeOf('asks', item)),
    passesOn: fields['passesOn'] === true,
    others: listOf('others', fields['others'], mostPassedOn).map((item) =>
      checkpointOf('others', item),
    ),
    ...(restored === undefined
      ? {}
      : { restored: textOf('restored', restored, longestRestoreChars) }),
  };
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw malformed('log is not an object');
  }
  return value as Readonly<Record<string, unknown>>;
}

function listOf(key: string, value: unknown, most: number): readonly unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw malformed(`log.${key} is not a list`);
  if (value.length > most) throw malformed(`log.${key} has more than ${most} entries`);
  return value;
}

function textOf(key: string, value: unknown, longest: number): string {
  if (typeof value !== 'string' || value.length > longest) {
    throw malformed(`log.${key} is missing or too long`);
  }
  return value;
}

function sizeOf(key: string, value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw malformed(`log.${key} is not the size of a log`);
  }
  return value as number;
}

function hashOf(value: unknown): Buffer {
  const text = textOf('hashes', value, 64);
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.length !== hashBytes || bytes.toString('base64url') !== text) {
    throw malformed('log.hashes has an entry that is not a hash');
  }
  return bytes;
}

function checkpointOf(key: string, value: unknown): SignedCheckpoint {
  const text = textOf(key, value, longestCheckpointChars);
  try {
    return parseCheckpoint(text);
  } catch (error) {
    if (!hasCode(error, 'HANSA_AUDIT_INVALID')) throw error;
    throw malformed(`log.${key} is not a checkpoint`);
  }
}

function malformed(why: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', `Cannot read the message of the other site: ${why}.`);
}
