// The transcript that a client signs to join or renew. It is never only a nonce of the server, because
// then a server could make the client sign any bytes. Pure.
//
//   64 spaces, the purpose ("hansa join v1"), one zero byte, and for each field: the length of its label, the
//   label, the length of its value, the value. Lengths are four bytes, big-endian.
//
// The spaces are those of TLS 1.3 (RFC 8446 §4.4.3). No other message that the key of an SVID signs has
// this prefix, so a signature cannot be reused elsewhere.

import { hash } from 'node:crypto';

export type TranscriptField = readonly [label: string, value: Uint8Array | string];

/** A label for use without registration (RFC 5705 §4). */
export const exporterLabel = 'EXPERIMENTAL-hansa-join-v1';
export const exporterBytes = 32;
export const nonceBytes = 32;

const joinPurpose = 'hansa join v1';

/** No two kinds of transcripts have the same purpose. */
export function encodeTranscript(
  fields: readonly TranscriptField[],
  purpose: string = joinPurpose,
): Buffer {
  const parts: Uint8Array[] = [Buffer.from(`${' '.repeat(64)}${purpose}\0`, 'latin1')];
  for (const [label, value] of fields) {
    for (const text of [label, value]) {
      const bytes = typeof text === 'string' ? Buffer.from(text) : text;
      const length = Buffer.allocUnsafe(4);
      length.writeUInt32BE(bytes.byteLength);
      parts.push(length, bytes);
    }
  }
  return Buffer.concat(parts);
}

/** The values of one conversation that both ends know. */
export interface Conversation {
  /** The path of the gRPC method: a signature is valid for one method only. */
  readonly method: string;
  /** The trust domain of the server, as the client expects it. */
  readonly trustDomain: string;
  readonly publicKey: Uint8Array;
  /** `credentialDigest` of the proof: the SVID, or the public key of the secret. */
  readonly credential: Uint8Array;
  readonly clientNonce: Uint8Array;
  readonly serverNonce: Uint8Array;
  readonly exporter: Uint8Array;
}

export function credentialDigest(credential: Uint8Array): Buffer {
  return hash('sha256', credential, 'buffer');
}

export interface JoinWish {
  readonly token: string;
  readonly role: string;
  readonly name: string;
}

export interface RenewWish {
  readonly instance: string;
  readonly generation: bigint;
}

export function joinTranscript(wish: JoinWish, conversation: Conversation): Buffer {
  return encodeTranscript([
    ['method', conversation.method],
    ['trust-domain', conversation.trustDomain],
    ['token', wish.token],
    ['role', wish.role],
    ['name', wish.name],
    ...rest(conversation),
  ]);
}

export function renewTranscript(wish: RenewWish, conversation: Conversation): Buffer {
  return encodeTranscript([
    ['method', conversation.method],
    ['trust-domain', conversation.trustDomain],
    ['instance', wish.instance],
    ['generation', wish.generation.toString()],
    ...rest(conversation),
  ]);
}

function rest(conversation: Conversation): readonly TranscriptField[] {
  return [
    ['public-key', conversation.publicKey],
    ['credential', conversation.credential],
    ['client-nonce', conversation.clientNonce],
    ['server-nonce', conversation.serverNonce],
    ['tls-exporter', conversation.exporter],
  ];
}
