// The signed record of a restore. A site that was restored from a backup opens a new log origin, and this
// note tells its peers so: which log ended, which one follows, and which cosigned checkpoint was the last
// one that the backup knew. Peers always show a restore. Without this record, the same log would be one
// that shrank.

import type { KeyObject } from 'node:crypto';
import { hasCode } from '../errors/error.ts';
import { hashBytes } from '../merkle/tree.ts';
import { isOriginOf, siteOfOrigin } from './introduction.ts';
import {
  base64,
  invalidNote,
  noteSigner,
  type NoteSigner,
  type NoteVerifier,
  parseNote,
  parseVerifier,
  rawPublicKeyOf,
  signatureLine,
  type SignedNote,
  signNote,
  verifyNote,
} from './note.ts';
import type { Store } from '../store/store.ts';

/** Not the origin of any log, so that no restore record is a checkpoint. */
const header = 'hansa.dev/restore/v1';
export const longestRestoreChars = 4096;

export interface RestoreRecord {
  /** The origin that ended. */
  readonly ended: string;
  /** The key of the log that follows. Its name is the new origin. */
  readonly next: NoteVerifier;
  /** The last cosigned checkpoint in the backup. */
  readonly size: number;
  readonly rootHash: Buffer;
  /** RFC 3339 in UTC. */
  readonly time: string;
  readonly note: string;
}

/** Signed by the key of the log that ended and by that of the log that follows. */
export async function signRestore(
  ended: NoteSigner,
  next: NoteSigner,
  last: { readonly size: number; readonly rootHash: Buffer },
  time: string,
): Promise<RestoreRecord> {
  const body = [
    header,
    ended.verifier.name,
    next.verifier.text,
    String(last.size),
    last.rootHash.toString('base64'),
    time,
    '',
  ].join('\n');
  const { note } = await signNote(ended, body);
  const { name, keyId } = next.verifier;
  const signature = Buffer.from(await next.sign(Buffer.from(body)));
  return readRestore(note + signatureLine({ name, keyId, signature }), ended.verifier);
}

/** Throws HANSA_AUDIT_INVALID unless `ended`, the key of the log that ended, signed it. */
export function readRestore(text: string, ended: NoteVerifier): RestoreRecord {
  const { note, record } = parseRestore(text);
  if (record.ended !== ended.name) {
    throw invalidNote(`the restore record ends the log ${record.ended}, not ${ended.name}`);
  }
  verifyNote(note, ended);
  return record;
}

/** Verifies only the signature of the log that follows. */
function parseRestore(text: string): { readonly note: SignedNote; readonly record: RestoreRecord } {
  if (text.length > longestRestoreChars) throw invalidNote('the restore record is too long');
  const note = parseNote(text);
  const [first, ended = '', key = '', size = '', root = '', time = '', last, ...more] =
    note.body.split('\n');
  if (first !== header || last !== '' || more.length > 0) {
    throw invalidNote('the note is not a restore record');
  }
  const next = parseVerifier(key);
  if (next.text !== key || !follows(next.name, ended)) {
    throw invalidNote(`the log ${next.name} cannot follow the log ${ended}`);
  }
  const rootHash = base64(root);
  if (!/^(?:0|[1-9]\d{0,14})$/.test(size) || rootHash?.length !== hashBytes) {
    throw invalidNote('the restore record names no checkpoint');
  }
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z$/.test(time)) {
    throw invalidNote('the restore record has no time');
  }
  verifyNote(note, next);
  return { note, record: { ended, next, size: Number(size), rootHash, time, note: text } };
}

/** The numbers of origins grow, so that a restore cannot go back to an earlier log. */
export function follows(next: string, ended: string): boolean {
  const site = siteOfOrigin(ended);
  return isOriginOf(ended, site) && isOriginOf(next, site) && numberOf(next) > numberOf(ended);
}

function numberOf(origin: string): number {
  return Number(origin.split('/')[2] ?? 1);
}

export const restoreCollection = 'audit.restore';
export const latestRestore = 'latest';

/** The record of the last restore of this site; undefined if it was never restored. */
export function storedRestore(store: Store): string | undefined {
  return store.get(restoreCollection, latestRestore)?.value.toString('utf8');
}

/**
 * The signer of the log of this site, whose origin is its trust domain until a restore opens another one. A record
 * that this key did not sign opens none: then the checkpoint of the restored log does not verify, and the site
 * signs nothing.
 */
export function logSigner(store: Store, trustDomain: string, key: KeyObject): NoteSigner {
  const first = noteSigner(trustDomain, key);
  const text = storedRestore(store);
  if (text === undefined) return first;
  try {
    const { next } = parseRestore(text).record;
    const isOurs =
      siteOfOrigin(next.name) === trustDomain &&
      rawPublicKeyOf(next).equals(rawPublicKeyOf(first.verifier));
    return isOurs ? noteSigner(next.name, key) : first;
  } catch (error) {
    if (hasCode(error, 'HANSA_AUDIT_INVALID')) return first;
    throw error;
  }
}
