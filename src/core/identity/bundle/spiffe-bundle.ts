// Reads and writes the SPIFFE bundle format: a JWK Set with SPIFFE's own members (SPIFFE Trust Domain
// and Bundle §4). The writer is exact. The reader skips keys that it does not understand and keeps
// the rest, so that peers can add new kinds of keys. That is safe, because a skipped authority only
// means less trust.

import type { JsonWebKey } from 'node:crypto';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { yieldToEventLoop } from '../../clock/yield-to-event-loop.ts';
import { HansaError } from '../../errors/error.ts';
import { duplicateFields, jsonExcess } from '../../json/strict-json.ts';
import { Bundle, type JwtAuthority, maxAuthorities } from './bundle.ts';
import { Certificate } from '../x509/certificate.ts';
import { spkiOf } from '../x509/keys.ts';
import { isSameKey, jwtAuthorityMembers, publicMembers, readJwtAuthority } from '../jwt/jwk.ts';

/** Room for a hundred authorities with RSA keys; SPIRE's with two has 5 KB. */
export const maxBundleBytes = 256 * 1024;
/** X.509 and JWT authorities together, with what others may add. */
const maxKeys = 256;
/** Most duplicate members that the parser reports; a bundle with more is rejected. */
const maxDuplicates = 100;
/** SPIFFE Trust Domain and Bundle §4.2.2. */
const x509Use = 'x509-svid';
/** JWT-SVID §6.1. */
const jwtUse = 'jwt-svid';
/** WIT-SVID: known but not used here; skipped without a report. */
const otherUses = new Set(['wit-svid']);

export interface SpiffeBundle {
  /** A bundle with the authorities that were read; one kind may be missing (JWT-SVID §6.2). */
  readonly bundle: Bundle;
  /** Grows with every change of the bundle; undefined where the publisher gives none. */
  readonly sequence: number | undefined;
  /** As published. */
  readonly refreshHintSeconds: number | undefined;
  /** The skipped keys, with reasons. */
  readonly skipped: readonly SkippedKey[];
}

export interface SkippedKey {
  /** Its place in the document. */
  readonly index: number;
  readonly why: string;
}

export interface EncodeOptions {
  readonly sequence: number;
  readonly refreshHintSeconds: number;
}

/** The document for a bundle. The same input gives the same bytes. */
export function encodeSpiffeBundle(bundle: Bundle, options: EncodeOptions): string {
  const keys = bundle.authorities.map((authority) => ({
    use: x509Use,
    ...publicMembers(authority.publicKey.export({ format: 'jwk' })),
    // RFC 7517 §4.7: base64 and not base64url; exactly one certificate.
    x5c: [authority.der.toString('base64')],
  }));
  const jwtKeys = [...bundle.jwtAuthorities.values()].map((authority) => ({
    use: jwtUse,
    ...jwtAuthorityMembers(authority),
  }));
  return JSON.stringify({
    keys: [...keys, ...jwtKeys],
    spiffe_sequence: options.sequence,
    spiffe_refresh_hint: options.refreshHintSeconds,
  });
}

/** The JWT authorities of a bundle as a plain JWK Set, without SPIFFE's own members. */
export function encodeJwtBundle(bundle: Bundle): string {
  return JSON.stringify({ keys: [...bundle.jwtAuthorities.values()].map(jwtAuthorityMembers) });
}

/**
 * Throws HANSA_BUNDLE_INVALID where the document is malformed, or has no authority that this site
 * would trust (reason `malformed` or `empty` in its causes). Callers that verify connections with the
 * bundle pass `needs: 'x509'`; a bundle with only JWT authorities is valid otherwise. Linear in its
 * size, which is bounded.
 */
export function parseSpiffeBundle(
  document: string | Uint8Array,
  trustDomain: TrustDomain,
  needs: Needs = 'any',
): SpiffeBundle {
  const text = textOf(document);
  const steps = recalled(text, trustDomain, needs) ?? readSpiffeBundle(text, trustDomain, needs);
  if ('bundle' in steps) return steps;
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return remember(text, trustDomain, value);
  }
}

/** Keys to import before yielding to the event loop. */
const keysInARow = 16;

/**
 * The same for bundles of other trust domains. A bundle of the maximum size takes 10 ms or more, so it
 * yields to the event loop. It caches recent results by document.
 */
export async function parseSpiffeBundleInSteps(
  document: string | Uint8Array,
  trustDomain: TrustDomain,
  needs: Needs = 'any',
): Promise<SpiffeBundle> {
  const text = textOf(document);
  const steps = recalled(text, trustDomain, needs) ?? readSpiffeBundle(text, trustDomain, needs);
  if ('bundle' in steps) return steps;
  for (let keys = 1; ; keys++) {
    const { done, value } = steps.next();
    if (done === true) return remember(text, trustDomain, value);
    if (keys % keysInARow === 0) await yieldToEventLoop();
  }
}

type Needs = 'any' | 'x509';

/** Undefined where it is not UTF-8; its size where it is too large. */
function textOf(document: string | Uint8Array): string | number | undefined {
  const isText = typeof document === 'string';
  const bytes = isText ? Buffer.byteLength(document) : document.byteLength;
  if (bytes > maxBundleBytes) return bytes;
  try {
    return isText ? document : utf8.decode(document);
  } catch {
    return undefined;
  }
}

/**
 * Cache of recent results by document. A refresh reads the current and the fetched bundle, which are
 * nearly always the same, and importing the keys is the most expensive step.
 */
const recent = new Map<string, SpiffeBundle>();
/** Twice the number of concurrent refreshes. */
const maxRecent = 512;
/** Most bytes in the cache: far more than usual bundles need, so that large ones cannot fill the memory. */
const maxRecentCharacters = 4 * 1024 * 1024;
let recentCharacters = 0;

const recentKey = (text: string, { name }: TrustDomain): string => `${name} ${text}`;

function recalled(
  text: ReturnType<typeof textOf>,
  trustDomain: TrustDomain,
  needs: Needs,
): SpiffeBundle | undefined {
  const known = typeof text === 'string' ? recent.get(recentKey(text, trustDomain)) : undefined;
  return known !== undefined && (needs === 'any' || known.bundle.authorities.length > 0)
    ? known
    : undefined;
}

function remember(
  text: ReturnType<typeof textOf>,
  trustDomain: TrustDomain,
  read: SpiffeBundle,
): SpiffeBundle {
  const key = recentKey(text as string, trustDomain);
  if (!recent.has(key)) recentCharacters += key.length;
  recent.set(key, read);
  for (const oldest of recent.keys()) {
    if (recent.size <= maxRecent && recentCharacters <= maxRecentCharacters) break;
    recent.delete(oldest);
    recentCharacters -= oldest.length;
  }
  return read;
}

/** Each step reads one key. */
function* readSpiffeBundle(
  text: ReturnType<typeof textOf>,
  trustDomain: TrustDomain,
  needs: Needs,
): Generator<undefined, SpiffeBundle> {
  const refuse = (why: string, reason: 'malformed' | 'empty' = 'malformed'): HansaError =>
    new HansaError(
      'HANSA_BUNDLE_INVALID',
      `Cannot read the bundle of ${trustDomain.name}: ${why}.`,
      {
        details: { causes: [{ reason, message: why }] },
      },
    );
  if (typeof text === 'number') {
    throw refuse(`it has ${text} bytes, and the limit is ${maxBundleBytes}`);
  }
  const parsed = text === undefined ? undefined : parseObject(text);
  if (parsed === undefined) throw refuse('it is not a JSON object');
  const { json, duplicates, tooDeep } = parsed;
  if (tooDeep) throw refuse('it is nested too deeply, or has too many members');
  const { keys } = json;
  // §4.1.3: an empty list means no authorities; a missing list means that this is not a bundle.
  if (!Array.isArray(keys)) throw refuse('it has no list of keys');
  if (keys.length > maxKeys) {
    throw refuse(`it has ${keys.length} keys, and the limit is ${maxKeys}`);
  }
  // §6.3: duplicates are ambiguous. Within a key, they only make that key invalid.
  const doubtful = new Set<number>();
  for (const path of duplicates) {
    const index = /^keys\[(\d+)\]/.exec(path)?.[1];
    if (index === undefined) throw refuse(`it has the member ${path.slice(0, 80)} twice`);
    doubtful.add(Number(index));
  }
  if (duplicates.length >= maxDuplicates) throw refuse('it has too many duplicate members');
  const sequence = wholeNumber(json['spiffe_sequence']);
  if (sequence === 'wrong') throw refuse('its spiffe_sequence is not a whole number');
  const hint = wholeNumber(json['spiffe_refresh_hint']);

  // Before importing keys, which is the most expensive step.
  const asked = countKeys(keys);
  if (asked.x509 > maxAuthorities || asked.jwt > maxAuthorities) {
    throw refuse(
      `it has ${asked.x509} X.509 and ${asked.jwt} JWT authorities, and the limit is ${maxAuthorities} of each kind`,
    );
  }
  const found = yield* readKeys(keys, doubtful);
  const { authorities, jwtAuthorities, skipped } = found;
  const needed = authorities.length + (needs === 'any' ? jwtAuthorities.size : 0);
  if (needed === 0) {
    const first = skipped[0];
    const kind = needs === 'any' ? 'X.509 or JWT authority' : 'X.509 authority';
    const others = needs === 'x509' ? `, only ${jwtAuthorities.size} for JWT-SVIDs` : '';
    throw refuse(
      `it has no ${kind} that this site can use${others}${first === undefined ? '' : ` (key ${first.index}: ${first.why})`}`,
      'empty',
    );
  }
  return {
    bundle: new Bundle(trustDomain, authorities, jwtAuthorities.values()),
    sequence,
    // The hint is only advice: ignore an invalid one.
    refreshHintSeconds: hint === 'wrong' ? undefined : hint,
    skipped,
  };
}

/** Counts the distinct keys that claim to be authorities. */
function countKeys(keys: readonly unknown[]): { readonly x509: number; readonly jwt: number } {
  const different = (use: string): number =>
    new Set(keys.filter((key) => useOf(key) === use).map((key) => JSON.stringify(key))).size;
  return { x509: different(x509Use), jwt: different(jwtUse) };
}

function useOf(key: unknown): unknown {
  return typeof key === 'object' && key !== null ? (key as { use?: unknown }).use : undefined;
}

interface FoundKeys {
  readonly authorities: readonly Certificate[];
  readonly jwtAuthorities: ReadonlyMap<string, JwtAuthority>;
  readonly skipped: readonly SkippedKey[];
}

function* readKeys(
  keys: readonly unknown[],
  doubtful: ReadonlySet<number>,
): Generator<undefined, FoundKeys> {
  const authorities: Certificate[] = [];
  const jwtAuthorities = new Map<string, JwtAuthority>();
  const skipped: SkippedKey[] = [];
  /** Reads a repeated key only once. */
  const seen = new Set<string>();
  for (const [index, key] of keys.entries()) {
    try {
      if (doubtful.has(index)) throw new TypeError('it has a member twice');
      const text = JSON.stringify(key);
      if (seen.has(text)) continue;
      seen.add(text);
      const authority = readAuthority(key);
      if (authority instanceof Certificate) authorities.push(authority);
      else if (authority !== undefined) addJwtAuthority(jwtAuthorities, authority);
    } catch (caught) {
      skipped.push({ index, why: caught instanceof Error ? caught.message : 'it is not readable' });
    }
    yield;
  }
  return { authorities, jwtAuthorities, skipped };
}

/** Of two keys with the same kid, uses the first, so that a kid names one key. */
function addJwtAuthority(known: Map<string, JwtAuthority>, authority: JwtAuthority): void {
  const { keyId, publicKey } = authority;
  const same = known.get(keyId);
  if (same === undefined) known.set(keyId, authority);
  else if (!spkiOf(same.publicKey).equals(spkiOf(publicKey))) {
    throw new TypeError('an earlier key has the same kid');
  }
}

/** Undefined where the key has another purpose; throws where it claims to be an authority but is not valid. */
function readAuthority(key: unknown): Certificate | JwtAuthority | undefined {
  if (typeof key !== 'object' || key === null) throw new TypeError('it is not an object');
  const { use, kty, x5c } = key as Readonly<Record<string, unknown>>;
  // §4.2.2: a missing or unknown use, or kty, is ignored together with its key.
  if (typeof use === 'string' && otherUses.has(use)) return undefined;
  if (use === jwtUse) return readJwtAuthority(key as Readonly<Record<string, unknown>>);
  if (use !== x509Use) throw new TypeError(`its use is neither ${x509Use} nor ${jwtUse}`);
  if (kty === undefined) throw new TypeError('it has no kty');
  if (kty !== 'EC' && kty !== 'RSA' && kty !== 'OKP') {
    throw new TypeError('its kty is none of EC, RSA and OKP');
  }
  // X.509-SVID §6.2: the first certificate is that of the authority, and whatever follows is ignored.
  if (!Array.isArray(x5c) || x5c.length === 0) {
    throw new TypeError('its x5c does not contain a certificate');
  }
  const certificate = Certificate.parse(fromBase64(x5c[0]));
  if (certificate.extensions.basicConstraints?.ca !== true) {
    throw new TypeError('its certificate is not a CA (cA is false)');
  }
  // Rejects weak keys and keys that OpenSSL does not support.
  const { publicKey } = certificate;
  if (!isSameKey(key as JsonWebKey, certificate.spki, publicKey)) {
    // RFC 7517 §4.7.
    throw new TypeError('its key does not match its certificate');
  }
  return certificate;
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Strict, because Buffer.from accepts anything. */
function fromBase64(text: unknown): Buffer {
  if (typeof text !== 'string' || !base64.test(text)) throw new TypeError('its x5c is not base64');
  return Buffer.from(text, 'base64');
}

interface ParsedDocument {
  readonly json: Readonly<Record<string, unknown>>;
  readonly duplicates: readonly string[];
  /** Nested too deeply, or too many values. The other fields are empty then. */
  readonly tooDeep: boolean;
}

/** A mark of byte order is no white space of JSON (RFC 8259 §8.1), and is left for JSON.parse to refuse. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function parseObject(text: string): ParsedDocument | undefined {
  try {
    const bytes = Buffer.from(text);
    const tooDeep = jsonExcess(bytes) !== undefined;
    if (tooDeep) return { json: {}, duplicates: [], tooDeep };
    const json: unknown = JSON.parse(text);
    if (typeof json !== 'object' || json === null || Array.isArray(json)) return undefined;
    const duplicates = duplicateFields(bytes);
    return { json: json as Readonly<Record<string, unknown>>, duplicates, tooDeep };
  } catch {
    return undefined;
  }
}

/** Numbers above 2^53 lose precision, and no sequence gets there. */
function wholeNumber(value: unknown): number | undefined | 'wrong' {
  if (value === undefined || value === null) return undefined;
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 'wrong';
}
