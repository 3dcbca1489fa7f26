// The claims of a JWT before anything is verified: for messages, and to choose who can verify it.

import { isRecord, type JsonRecord } from '../../json/is-record.ts';
import { parseBoundedJson } from '../../json/strict-json.ts';

/** Tokens have a few dozen values. */
const maxValues = 1000;

/** Undefined if it is not a JWT (RFC 7519 §3). Errors of the parser would quote the token. */
export function unverifiedClaims(token: string): JsonRecord | undefined {
  const payload = /^[\w-]+\.([\w-]+)\.[\w-]*$/.exec(token)?.[1];
  if (payload === undefined) return undefined;
  try {
    const claims = parseBoundedJson(Buffer.from(payload, 'base64url'), maxValues);
    return isRecord(claims) ? claims : undefined;
  } catch {
    return undefined;
  }
}
