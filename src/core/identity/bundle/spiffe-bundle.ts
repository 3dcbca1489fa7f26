// A trust domain's bundle as sites tell it to one another: a JWK Set with SPIFFE's own members
// (SPIFFE Trust Domain and Bundle §4). Writing is exact. Reading is tolerant, key by key: what is
// strange is left out and the rest is kept, so that a peer may add what we do not know yet. That is
// safe, because to leave an authority out only ever means to believe less.

import type { JsonWebKey } from 'node:crypto';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { yieldToEventLoop } from '../../clock/yield-to-event-loop.ts';
import { HansaError } from '../../errors/error.ts';
import { duplicateFields, jsonExcess } from '../../json/strict-json.ts';
import { Bundle, type JwtAuthority, maxAuthorities } from './bundle.ts';
import { Certificate } from '../x509/certificate.ts';
import { isSameKey, jwtAuthorityMembers, publicMembers, readJwtAuthority } from '../jwt/jwk.ts';

/** Room for a hundred authorities with RSA keys; SPIRE's with two has 5 KB. */
export const maxBundleBytes = 256 * 1024;
/** X.509 and JWT authorities together, with what others may add. */
const maxKeys = 256;
/** So many are looked for at most: beyond, some would go unseen. */
const maxDuplicates = 100;
/** SPIFFE Trust Domain and Bundle §4.2.2. */
const x509Use = 'x509-svid';
/** JWT-SVID §6.1. */
const jwtUse = 'jwt-svid';
/** WIT-SVID: known, but of no use here; left out without a word. */
const otherUses = new Set(['wit-svid']);

export interface SpiffeBundle {
  /** Tells how many authorities of which kind were read; one kind may be missing (JWT-SVID §6.2). */
  readonly bundle: Bundle;
  /** Grows with every change of the bundle; undefined where the publisher gives none. */
  readonly sequence: number | undefined;
  /** As it was given. */
  readonly refreshHintSeconds: number | undefined;
  /** Which keys were left out, and why. */
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

/** The JWT authorities of a bundle as any reader of JWK Sets takes them, without SPIFFE's own members. */
export function encodeJwtBundle(bundle: Bundle): string {
  return JSON.stringify({ keys: [...bundle.jwtAuthorities.values()].map(jwtAuthorityMembers) });
}

/**
 * Throws HANSA_BUNDLE_INVALID where the document as a whole cannot be understood, or leaves no
 * authority that this site would believe (reason `malformed` or `empty` in its causes). Whoever
 * verifies connections by the bundle `needs` X.509 authorities; a bundle of JWT authorities alone is
 * one nevertheless. Linear in its size, which is bounded.
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

/** So many keys are imported before everybody else of the process gets a turn. */
const keysInARow = 16;

/**
 * The same for bundles that others give: one with as many keys as are accepted takes ten milliseconds
 * and more, in which others can run. Whoever reads the same document soon has it at once.
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

/** Undefined where it is not UTF-8; its size where it is too large to be looked at. */
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
 * What was read last, by what it was read from: a refresh reads the bundle that is held and the one
 * that came, which are nearly always the same, and to import its keys costs more than all the rest.
 */
const recent = new Map<string, SpiffeBundle>();
/** As many as are refreshed at once, twice. */
const maxRecent = 512;
/** Of all together: far more than usual bundles have, so that large ones cannot fill the memory. */
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

/** Every step is a key. */
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
    throw refuse(`it has ${text} bytes, and ${maxBundleBytes} are accepted`);
  }
  const parsed = text === undefined ? undefined : parseObject(text);
  if (parsed === undefined) throw refuse('it is not a JSON object');
  const { json, duplicates, tooDeep } = parsed;
  if (tooDeep) throw refuse('it is nested too deep, or has too many members');
  const { keys } = json;
  // §4.1.3: an empty list is no bundle of anybody; a missing one is no bundle at all.
  if (!Array.isArray(keys)) throw refuse('it has no list of keys');
  if (keys.length > maxKeys) {
    throw refuse(`it has ${keys.length} keys, and ${maxKeys} are accepted`);
  }
  // §6.3: which of the two would count is anybody's guess. Within a key, only that key is in doubt.
  const doubtful = new Set<number>();
  for (const path of duplicates) {
    const index = /^keys\[(\d+)\]/.exec(path)?.[1];
    if (index === undefined) throw refuse(`it has the member ${path.slice(0, 80)} twice`);
    doubtful.add(Number(index));
  }
  if (duplicates.length >= maxDuplicates) throw refuse('it has too many members twice');
  const sequence = wholeNumber(json['spiffe_sequence']);
  if (sequence === 'wrong') throw refuse('its spiffe_sequence is not a whole number');
  const hint = wholeNumber(json['spiffe_refresh_hint']);

  // Before any of them is imported, which costs more than all the rest.
  const asked = countKeys(keys);
  if (asked.x509 > maxAuthorities || asked.jwt > maxAuthorities) {
    throw refuse(
      `it has ${asked.x509} X.509 and ${asked.jwt} JWT authorities, and ${maxAuthorities} of each kind are accepted`,
    );
  }
  const found = yield* readKeys(keys, doubtful);
  const { authorities, jwtAuthorities, skipped } = found;
  const needed = authorities.length + (needs === 'any' ? jwtAuthorities.size : 0);
  if (needed === 0) {
    const first = skipped[0];
    const kind = needs === 'any' ? 'X.509 or JWT authority' : 'X.509 authority';
    const others = needs === 'x509' ? ` beside ${jwtAuthorities.size} for JWT-SVIDs` : '';
    throw refuse(
      `it has no ${kind} that this site could believe${others}${first === undefined ? '' : ` (key ${first.index}: ${first.why})`}`,
      'empty',
    );
  }
  return {
    bundle: new Bundle(trustDomain, authorities, jwtAuthorities.values()),
    sequence,
    // A hint is advice: one that is nonsense is none.
    refreshHintSeconds: hint === 'wrong' ? undefined : hint,
    skipped,
  };
}

/** How many different ones there are that say they are authorities, whatever they turn out to be. */
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
  /** A key that comes a second time is not read again. */
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

/** The first of two keys with the same kid counts, or else nobody could tell which one a token means. */
function addJwtAuthority(known: Map<string, JwtAuthority>, authority: JwtAuthority): void {
  const { keyId, publicKey } = authority;
  const same = known.get(keyId);
  if (same === undefined) known.set(keyId, authority);
  else if (!same.publicKey.equals(publicKey)) {
    throw new TypeError('its kid is that of another key before it');
  }
}

/** Undefined where the key is for something else; throws where it should be an authority and is none. */
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
    throw new TypeError('its x5c does not hold a certificate');
  }
  const certificate = Certificate.parse(fromBase64(x5c[0]));
  if (certificate.extensions.basicConstraints?.ca !== true) {
    throw new TypeError('its certificate is not that of an authority (cA is false)');
  }
  // Refuses weak keys, and what OpenSSL cannot verify with.
  const { publicKey } = certificate;
  if (!isSameKey(key as JsonWebKey, certificate.spki, publicKey)) {
    // RFC 7517 §4.7.
    throw new TypeError('its key is not that of its certificate');
  }
  return certificate;
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Buffer.from would take anything. */
function fromBase64(text: unknown): Buffer {
  if (typeof text !== 'string' || !base64.test(text)) throw new TypeError('its x5c is not base64');
  return Buffer.from(text, 'base64');
}

interface ParsedDocument {
  readonly json: Readonly<Record<string, unknown>>;
  readonly duplicates: readonly string[];
  /** Or of too many values. Nothing else was read then. */
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

/** Beyond 2^53 a number is not the one that was written; no counter gets there. */
function wholeNumber(value: unknown): number | undefined | 'wrong' {
  if (value === undefined || value === null) return undefined;
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 'wrong';
}
