// The part of a heartbeat about audit logs: a checkpoint of the sender's log, proofs for the receiver, the
// receiver's checkpoint that the sender holds with its cosignature, and checkpoints of others.

import { parseCheckpoint, type SignedCheckpoint } from '../../core/audit/checkpoint.ts';
import { longestIntroductionChars } from '../../core/audit/introduction.ts';
import { longestRestoreChars } from '../../core/audit/restore-record.ts';
import { hasCode } from '../../core/errors/error.ts';
import { hashBytes } from '../../core/merkle/tree.ts';
import { asText, malformed, Message } from '../message-reader.ts';

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
  const part = new Message(value);
  return {
    ...part.optional('introduction', (text) =>
      asText(text, longestIntroductionChars, 'introduction'),
    ),
    ...part.optional('checkpoint', (note) => checkpointOf('checkpoint', note)),
    proofs: part.optionalList('proofs', mostProofs, (item) => {
      const proof = new Message(item);
      return {
        from: proof.count('from'),
        hashes: proof.optionalList('hashes', mostHashes, hashOf),
      };
    }),
    ...part.optional('held', (note) => checkpointOf('held', note)),
    ...part.optional('seen', (seen) => new Message({ seen }).count('seen')),
    asks: part.optionalList('asks', mostAsks, (size) => new Message({ size }).count('size')),
    passesOn: part.optional('passesOn', (flag) => flag === true).passesOn ?? false,
    others: part.optionalList('others', mostPassedOn, (note) => checkpointOf('others', note)),
    ...part.optional('restored', (text) => asText(text, longestRestoreChars, 'restored')),
  };
}

function hashOf(hash: unknown): Buffer {
  return new Message({ hash }).bytes('hash', hashBytes);
}

function checkpointOf(key: string, value: unknown): SignedCheckpoint {
  const text = asText(value, longestCheckpointChars, key);
  try {
    return parseCheckpoint(text);
  } catch (error) {
    if (!hasCode(error, 'HANSA_AUDIT_INVALID')) throw error;
    throw malformed(`${key} is not a checkpoint`);
  }
}
