// Computes what this site holds of a peer's log after one message of the peer. Pure, so that a
// conflicting write can repeat it.

import { type SignedCheckpoint, verifyCheckpoint } from '../../core/audit/checkpoint.ts';
import { readIntroduction } from '../../core/audit/introduction.ts';
import { type NoteVerifier, signatureLine, signaturesBy } from '../../core/audit/note.ts';
import { readRestore } from '../../core/audit/restore-record.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Finding, FindingReason } from './finding.ts';
import { judge } from './judge.ts';
import type { LogPart } from './log-part.ts';
import { emptyHead, headOf, newLog, verifierOf, type WitnessedLog } from './witnessed-logs.ts';

export interface Told {
  /** The trust domains of the peer and of this site. */
  readonly name: string;
  readonly self: string;
  readonly uid: string;
  /** Undefined if the message says nothing about logs. */
  readonly part: LogPart | undefined;
  /** If the message is an answer: the size that this site said it holds. */
  readonly answerTo?: number | undefined;
  readonly nowMs: number;
}

export interface Next {
  /** Undefined if the peer has not introduced its log. */
  readonly log: WitnessedLog | undefined;
  /** The verified checkpoint of the message, if it extends or equals what this site holds. */
  readonly offered?: SignedCheckpoint;
  /** The message was made before the peer knew what this site holds, or it claims so. */
  readonly isLate?: boolean;
  /** Why a part of the message was ignored. */
  readonly refused: readonly string[];
}

export function nextLog(before: WitnessedLog | undefined, told: Told): Next {
  const { part, nowMs } = told;
  const refused: string[] = [];
  let log = before;
  if (part?.restored !== undefined && log !== undefined && log.restore !== part.restored) {
    log =
      valid(refused, () => restored(log as WitnessedLog, part.restored as string, nowMs)) ?? log;
  }
  if (part?.introduction !== undefined) {
    const text = part.introduction;
    const key = valid(refused, () => readIntroduction(text, told.name, told.self).text);
    if (key !== undefined) log = introduced(log, key, text, told);
  }
  if (log === undefined) return { log, refused };
  const { checkpoint } = part ?? {};
  if (part === undefined || checkpoint === undefined) {
    return {
      log: withFinding(
        log,
        'Unsigned',
        'The peer no longer signs its audit log.',
        held(log),
        nowMs,
      ),
      refused,
    };
  }
  // Verified before. Most heartbeats bring no new checkpoint.
  if (checkpoint.note === log.note) return { log, offered: checkpoint, refused };
  const verifier = verifierOf(log);
  const problems: string[] = [];
  if (valid(problems, () => verified(checkpoint, verifier)) === undefined) {
    const message = `The log is no longer signed by the key that this site knows. ${problems.join(' ')}`;
    return {
      log: withFinding(log, 'Unsigned', message, [...held(log), checkpoint.note], nowMs),
      refused,
    };
  }
  const knows = (told.answerTo ?? part.seen) === log.size;
  const verdict = judge(headOf(log), checkpoint, part.proofs, knows);
  switch (verdict.kind) {
    case 'late':
      return { log, isLate: true, refused };
    case 'contradicts': {
      const proof = [...held(log), bare(checkpoint, verifier)];
      return { log: withFinding(log, verdict.reason, verdict.message, proof, nowMs), refused };
    }
    case 'unchanged':
      return { log, offered: checkpoint, refused };
    case 'extends':
      return {
        log: {
          ...log,
          size: checkpoint.size,
          rootHash: checkpoint.rootHash.toString('base64'),
          note: bare(checkpoint, verifier),
        },
        offered: checkpoint,
        refused,
      };
  }
}

/** A known key is replaced only for a new or re-enrolled peer of the same name, which an operator has invited. */
function introduced(
  log: WitnessedLog | undefined,
  key: string,
  text: string,
  { name, uid, nowMs }: Told,
): WitnessedLog {
  if (log === undefined) return newLog(uid, key);
  if (log.key === key) return log.uid === uid ? log : { ...log, uid };
  const message = `${name} uses another key for its audit log than before.`;
  const next = log.uid === uid ? log : { ...log, ...newLog(uid, key), note: '' };
  return withFinding(next, 'KeyChanged', message, [...held(log), text], nowMs);
}

/** The log of the new origin, with a finding. Throws if the key of the old origin did not sign the record. */
function restored(log: WitnessedLog, text: string, nowMs: number): WitnessedLog {
  const record = readRestore(text, verifierOf(log));
  const { finding, ...rest } = log;
  // A later restore replaces an earlier one. Every other finding stays: a record that the peer itself
  // signed says nothing against it.
  const kept = finding?.reason === 'Restored' ? rest : log;
  const lost = log.size - record.size;
  const message = `The peer was restored from a backup at ${record.time}. Its log ${record.ended} ended, and ${record.next.name} follows. The backup knew a cosigned checkpoint of ${record.size} events, and this site has seen ${log.size}${lost > 0 ? `: ${lost} events are not in the restored log` : ''}.`;
  const next = { ...kept, key: record.next.text, ...emptyHead, note: '', restore: text };
  return withFinding(next, 'Restored', message, [...held(log), text], nowMs);
}

const severity: Readonly<Record<FindingReason, number>> = {
  Restored: 1,
  Unsigned: 2,
  Unproven: 2,
  KeyChanged: 3,
  Shrank: 4,
  Forked: 5,
  SplitView: 5,
};

/** The first finding stays, unless the new one is graver. */
export function withFinding(
  log: WitnessedLog,
  reason: FindingReason,
  message: string,
  proof: readonly string[],
  atMs: number,
): WitnessedLog {
  const { finding } = log;
  if (finding !== undefined && severity[finding.reason] >= severity[reason]) return log;
  const found: Finding = { reason, message, proof, atMs };
  return { ...log, finding: found };
}

export function held({ note }: WitnessedLog): readonly string[] {
  return note === undefined || note === '' ? [] : [note];
}

function verified(checkpoint: SignedCheckpoint, verifier: NoteVerifier): true {
  verifyCheckpoint(checkpoint, verifier);
  return true;
}

/** With the signatures of the log only. */
export function bare(checkpoint: SignedCheckpoint, verifier: NoteVerifier): string {
  return `${checkpoint.body}\n${signaturesBy(checkpoint, verifier).map(signatureLine).join('')}`;
}

function valid<T>(refused: string[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!hasCode(error, 'HANSA_AUDIT_INVALID')) throw error;
    refused.push(error.message);
    return undefined;
  }
}
