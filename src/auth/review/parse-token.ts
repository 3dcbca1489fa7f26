// Splits a token in compact form (RFC 7515 §7.1) into header, claims and signature, once, and finds it in
// the text that was sent as kube-apiserver does. Nothing here is verified.

import { decodeUtf8 } from '../../core/json/decode-utf8.ts';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import { jsonExcess } from '../../core/json/strict-json.ts';
import { blank, notOurs } from './denial.ts';
import { readHeader, type TokenHeader } from './token-header.ts';
import type { Denial } from './verdict.ts';

/** Real tokens have about a thousand characters; one with many audiences has a few thousand. */
export const maxTokenLength = 64 * 1024;

export interface ParsedToken {
  readonly type: 'parsed';
  readonly header: TokenHeader;
  readonly claims: JsonRecord;
  /** The issuer that selects the authenticator: of claims called `iss` or `ISS`, the last one. */
  readonly issuer: string;
  /** The bytes of the claims. */
  readonly payload: Buffer;
  /** `header.payload`, as it was sent. */
  readonly signed: string;
  readonly signature: Buffer;
}

export interface UnreadToken {
  readonly type: 'denied';
  readonly verdict: Denial;
}

const unread: UnreadToken = { type: 'denied', verdict: notOurs };
const blankToken: UnreadToken = { type: 'denied', verdict: blank };

/** `\w` is A-Z, a-z, 0-9 and _: with the hyphen, the alphabet of base64url. */
const compactForm = /^[\w-]*\.[\w-]+\.[\w-]*$/;

export function parseToken(sent: string): ParsedToken | UnreadToken {
  if (sent.length > maxTokenLength) return unread;
  const token = compactForm.test(sent) ? sent : tokenIn(sent);
  if (token === '') return blankToken;
  if (token === undefined) return unread;
  const first = token.indexOf('.');
  const second = token.indexOf('.', first + 1);
  // No number of bytes has such a length in base64.
  const isCut = (length: number): boolean => length % 4 === 1;
  if (isCut(first) || isCut(second - first - 1) || isCut(token.length - second - 1)) return unread;

  const payload = Buffer.from(token.slice(first + 1, second), 'base64url');
  const claims = parseClaims(payload);
  const issuer = claims && issuerOf(claims);
  if (claims === undefined || issuer === undefined) return unread;
  const header = readHeader(token.slice(0, first));
  if (header === undefined) return unread;
  return {
    type: 'parsed',
    header,
    claims,
    issuer,
    payload,
    signed: token.slice(0, second),
    signature: Buffer.from(token.slice(second + 1), 'base64url'),
  };
}

/** Go's decoder refuses deeper nesting. */
const maxDepth = 10_000;

function parseClaims(payload: Buffer): JsonRecord | undefined {
  const mayBeDeep = payload.length > maxDepth;
  if (mayBeDeep && jsonExcess(payload, payload.length, maxDepth) !== undefined) return undefined;
  try {
    const claims: unknown = JSON.parse(decodeUtf8(payload));
    return isRecord(claims) ? claims : undefined;
  } catch {
    return undefined;
  }
}

/**
 * kube-apiserver looks for the issuer with a decoder that ignores case, and later for `iss` with one that
 * does not. Undefined where it is no text.
 */
function issuerOf(claims: JsonRecord): string | undefined {
  let issuer = '';
  for (const key in claims) {
    if (key !== 'iss' && !(key.length === 3 && anyCaseOfIss.test(key))) continue;
    const value = claims[key];
    if (typeof value === 'string') issuer = value;
    else if (value !== null) return undefined;
  }
  return issuer;
}

/** Also with the long s (U+017F), which Unicode folds to s. */
const anyCaseOfIss = /^iss$/iu;

/** unicode.IsSpace of Go, which differs from that of JavaScript in U+0085 and U+FEFF. */
const space = /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const spaces = new RegExp(space, 'g');
const spaceButLineEnds = /[\t\v\f \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

/**
 * The token in a text with white space. kube-apiserver writes the text behind "Bearer " and reads it as a
 * header: up to the next space. Then go-jose drops white space, but the claims may only have line ends.
 * Empty if there is no token; undefined if it is malformed.
 */
function tokenIn(sent: string): string | undefined {
  let end = sent.length;
  while (end > 0 && space.test(sent.charAt(end - 1))) end -= 1;
  const [word = ''] = sent.slice(0, end).split(' ', 1);
  const claims = word.split('.', 2)[1] ?? '';
  if (spaceButLineEnds.test(claims)) return undefined;
  if (word === '') return '';
  const token = word.replaceAll(spaces, '');
  return compactForm.test(token) ? token : undefined;
}
