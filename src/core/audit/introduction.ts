// The signed introduction of a log's key: a note by which a site tells one peer the key of its audit
// log. The key itself signs it, for this one peer, so that a site cannot pass off another key as its own.

import {
  invalidNote,
  type NoteSigner,
  type NoteVerifier,
  parseNote,
  parseVerifier,
  signNote,
  verifyNote,
} from './note.ts';

/** Not the origin of any log, so that no introduction is a checkpoint. */
const header = 'hansa.dev/log-key/v1';
export const longestIntroductionChars = 4096;

/** `from` and `to` are trust domains. */
export async function introduceLog(signer: NoteSigner, from: string, to: string): Promise<string> {
  const body = [header, from, to, signer.verifier.text, ''].join('\n');
  return (await signNote(signer, body)).note;
}

/** The key of the log of `from`. Throws HANSA_AUDIT_INVALID if the note does not introduce it to `to`. */
export function readIntroduction(text: string, from: string, to: string): NoteVerifier {
  if (text.length > longestIntroductionChars) throw invalidNote('the introduction is too long');
  const note = parseNote(text);
  const [first, sender, receiver, key = '', last, ...more] = note.body.split('\n');
  if (first !== header || last !== '' || more.length > 0) {
    throw invalidNote('the note does not introduce the key of a log');
  }
  if (sender !== from || receiver !== to) {
    throw invalidNote(
      `the key was introduced by ${sender} to ${receiver}, not by ${from} to ${to}`,
    );
  }
  const verifier = parseVerifier(key);
  if (verifier.text !== key || !isOriginOf(verifier.name, from)) {
    throw invalidNote(`${verifier.name} is not a log of ${from}`);
  }
  verifyNote(note, verifier);
  return verifier;
}

/** The first log of a site has the name of its trust domain. A restore adds a number: `TRUST-DOMAIN/log/2`. */
export function isOriginOf(origin: string, trustDomain: string): boolean {
  return (
    origin === trustDomain ||
    (origin.startsWith(`${trustDomain}/log/`) &&
      /^[1-9]\d{0,8}$/.test(origin.slice(trustDomain.length + '/log/'.length)))
  );
}

/** The trust domain of a log, which is also the name of its site as a witness. */
export function siteOfOrigin(origin: string): string {
  return origin.split('/', 1)[0] ?? origin;
}
