// The text format of a bearer token: `hansa_`, then 32 random bytes and a checksum of 4 bytes in
// base64url. 36 bytes are exactly 48 characters, so a token has only one spelling. The prefix lets
// secret scanners find leaked tokens; the checksum detects typing errors without a look-up. Neither
// is secret.

import { hash } from 'node:crypto';
import type { Random } from '../clock/clock.ts';

const prefix = 'hansa_';
const secretBytes = 32;
const checksumBytes = 4;
const textLength = prefix.length + ((secretBytes + checksumBytes) * 4) / 3;

const checksumLabel = Buffer.from('hansa token checksum\n', 'latin1');

function checksum(secret: Uint8Array): Buffer {
  return hash('sha256', Buffer.concat([checksumLabel, secret]), 'buffer').subarray(
    0,
    checksumBytes,
  );
}

export async function makeTokenText(random: Random): Promise<string> {
  const secret = await random.bytes(secretBytes);
  return prefix + Buffer.concat([secret, checksum(secret)]).toString('base64url');
}

export function isTokenText(text: string): boolean {
  if (text.length !== textLength || !text.startsWith(prefix)) return false;
  const encoded = text.slice(prefix.length);
  const bytes = Buffer.from(encoded, 'base64url');
  // Buffer skips invalid characters, so compare the encoding of the result with the input.
  if (bytes.toString('base64url') !== encoded) return false;
  return checksum(bytes.subarray(0, secretBytes)).equals(bytes.subarray(secretBytes));
}

/** The store keeps this digest instead of the token. 256 random bits need neither salt nor stretching. */
export function digestOfToken(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
