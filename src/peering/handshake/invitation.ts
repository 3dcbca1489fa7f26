// The invitation: its encoding as one line of text, its id, and the proof of its secret. Pure.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { parseSiteURL } from '../../api/values/site-url.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseFingerprint } from '../../core/identity/bundle/fingerprint.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { peeringError } from '../errors.ts';

/** Version 1, the only one. Another version has another prefix. */
const prefix = 'hansa1.';
/** Fits a URL of 2,048 bytes and eight keys in base64url. No site creates a longer one. */
const maxCharacters = 8192;
const maxKeys = 8;
const secretBytes = 32;
const checksumBytes = 8;
/** The longest lifetime of an invitation: four hours. */
export const maxInvitationSeconds = 4 * 3600;
export const defaultInvitationSeconds = 15 * 60;

export interface Invitation {
  /** The federation listener of the inviting site. */
  readonly url: URL;
  readonly trustDomain: TrustDomain;
  /** SHA-256 of the public key (SubjectPublicKeyInfo) of each of its authorities. */
  readonly keys: readonly Buffer[];
  readonly secret: Buffer;
  readonly expiresAtMs: number;
  /** The only trust domain that may redeem it. */
  readonly for?: TrustDomain;
  /** The fingerprint of the only keys that may redeem it. Earlier versions ignore it. */
  readonly forKeys?: string;
  /** It re-enrols a peer that has lost its keys. Earlier versions ignore it. */
  readonly reenrols?: true;
}

/** The site stores this digest. It verifies the secret and cannot redeem the invitation. */
export function secretDigest(secret: Uint8Array): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** The public id of an invitation, the idempotency key of every step of the handshake. */
export function invitationId(digest: Uint8Array): string {
  return createHash('sha256').update('hansa invitation id\0').update(digest).digest('hex');
}

/** A prefix of the id, for lists. */
export function shortId(id: string): string {
  return id.slice(0, 12);
}

/**
 * Proves knowledge of the secret without revealing it. The proof covers the server's certificate, so
 * a relay to another server fails.
 */
export function previewProof(
  digest: Uint8Array,
  challenge: Uint8Array,
  /** SHA-256 of the server's leaf certificate, in hex. */
  serverFingerprint: string,
  acceptor: string,
): Buffer {
  const mac = createHmac('sha256', digest).update('hansa invitation preview\0');
  for (const part of [challenge, Buffer.from(serverFingerprint), Buffer.from(acceptor)]) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.byteLength);
    mac.update(length).update(part);
  }
  return mac.digest();
}

/** In constant time. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && timingSafeEqual(a, b);
}

export function encodeInvitation(invitation: Invitation): string {
  const body = Buffer.from(
    JSON.stringify({
      u: invitation.url.href,
      t: invitation.trustDomain.name,
      k: invitation.keys.map((key) => key.toString('base64url')),
      s: invitation.secret.toString('base64url'),
      e: Math.floor(invitation.expiresAtMs / 1000),
      ...(invitation.for === undefined ? {} : { f: invitation.for.name }),
      ...(invitation.forKeys === undefined ? {} : { p: invitation.forKeys }),
      ...(invitation.reenrols === undefined ? {} : { r: true }),
    }),
  );
  return `${prefix}${body.toString('base64url')}.${checksum(body).toString('base64url')}`;
}

/** Detects copying errors. It is no protection against attackers, who lack the secret. */
function checksum(body: Uint8Array): Buffer {
  return createHash('sha256').update(body).digest().subarray(0, checksumBytes);
}

/**
 * Parses one line. Throws HANSA_INVITATION_INVALID or HANSA_INVITATION_EXPIRED. No error contains a
 * part of the line.
 */
export function parseInvitation(text: string, nowMs: number): Invitation {
  const invitation = decodeInvitation(text.trim());
  if (nowMs >= invitation.expiresAtMs) {
    const minutes = Math.floor((nowMs - invitation.expiresAtMs) / 60_000);
    throw peeringError(
      'HANSA_INVITATION_EXPIRED',
      `Cannot use the invitation: it expired ${minutes === 0 ? 'less than a minute' : minutes === 1 ? 'a minute' : `${minutes} minutes`} ago. Ask ${invitation.trustDomain.name} for a new one.`,
    );
  }
  return invitation;
}

function decodeInvitation(text: string): Invitation {
  if (text === '') throw invalid('it is empty');
  if (text.length > maxCharacters) {
    throw invalid(`it has ${text.length} characters; the maximum is ${maxCharacters}`);
  }
  if (/\s/.test(text)) throw invalid('it contains spaces or line breaks. Copy it as one line');
  if (!text.startsWith(prefix)) {
    const version = /^hansa(\d{1,4})\./.exec(text)?.[1];
    throw invalid(
      version === undefined
        ? `it does not begin with ${prefix}. Copy the whole line`
        : `it has version ${version}, but this site supports version 1. Update the older of the two sites`,
    );
  }
  const [encoded = '', sum, ...rest] = text.slice(prefix.length).split('.');
  const wholeSum = Math.ceil((checksumBytes * 4) / 3);
  if (sum === undefined || sum.length < wholeSum) {
    throw invalid('its end is missing. Copy the whole line');
  }
  const body = fromBase64url(encoded);
  const given = fromBase64url(sum);
  if (
    rest.length > 0 ||
    body === undefined ||
    given === undefined ||
    !sameBytes(given, checksum(body))
  ) {
    throw invalid('its checksum does not match. Copy the whole line again');
  }
  return readBody(body);
}

/** The checksum matches, so only a hostile or faulty site fails here. Its input is bounded all the same. */
function readBody(body: Buffer): Invitation {
  const fields = parseObject(body);
  const { u, t, k, s, e, f, p, r } = fields;
  const url = typeof u === 'string' ? parseSiteURL(u) : undefined;
  if (url === undefined) throw invalid('it has no valid https URL');
  if (typeof t !== 'string' || TrustDomain.problem(t) !== undefined) {
    throw invalid('it has no valid trust domain');
  }
  if (!Array.isArray(k) || k.length === 0 || k.length > maxKeys) {
    throw invalid(`it pins no keys or more than ${maxKeys}`);
  }
  const keys = k.map((key) => digestOf(key, 'a pinned key is not a SHA-256 digest'));
  const secret = digestOf(s, `its secret does not have ${secretBytes} bytes`);
  if (!Number.isSafeInteger(e) || (e as number) <= 0 || (e as number) > 253_402_300_799) {
    throw invalid('it has no expiry time');
  }
  if (f !== undefined && (typeof f !== 'string' || TrustDomain.problem(f) !== undefined)) {
    throw invalid('the trust domain that it is for is not valid');
  }
  const forKeys = typeof p === 'string' ? parseFingerprint(p) : undefined;
  if (p !== undefined && forKeys === undefined) {
    throw invalid('the fingerprint that it is for is not a SHA-256 digest');
  }
  if (r !== undefined && r !== true) throw invalid('it does not say whether it re-enrols a peer');
  return {
    url,
    trustDomain: TrustDomain.parse(t),
    keys,
    secret,
    expiresAtMs: (e as number) * 1000,
    ...(f === undefined ? {} : { for: TrustDomain.parse(f) }),
    ...(forKeys === undefined ? {} : { forKeys }),
    ...(r === undefined ? {} : { reenrols: true as const }),
  };
}

function parseObject(body: Buffer): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = parseBoundedJson(body);
  } catch {
    throw invalid('its encoding is not valid');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid('its encoding is not valid');
  }
  return value as Readonly<Record<string, unknown>>;
}

function digestOf(value: unknown, otherwise: string): Buffer {
  const bytes = typeof value === 'string' ? fromBase64url(value) : undefined;
  if (bytes?.byteLength !== secretBytes) throw invalid(otherwise);
  return bytes;
}

/** Accepts only the canonical encoding, so that equal invitations are equal strings. */
function fromBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}

function invalid(why: string): HansaError {
  return peeringError('HANSA_INVITATION_INVALID', `Cannot read the invitation: ${why}.`);
}
