// Peering: how two sites come to share anything, and how they stop.
//
// Here live the invitation (this file), the table of peer states (peer-states.ts), the handshake,
// heartbeats and what they carry, and the federation API between sites. What is shared is decided by
// resources: peering writes a SPIFFEFederation for a peer and reads grants; it issues no identity,
// keeps no bundle fresh and opens no connection but through the Transport that it is given.
//
// This file is the invitation itself: one line of text, pure.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { parseSiteURL } from '../../api/values/site-url.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseFingerprint } from '../../core/identity/bundle/fingerprint.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { peeringError } from '../errors.ts';

/** The only version there is; another begins with another prefix. */
const prefix = 'hansa1.';
/** A URL of 2,048 bytes and eight keys, in base64url: anything longer was not made by a site. */
const maxCharacters = 8192;
const maxKeys = 8;
const secretBytes = 32;
const checksumBytes = 8;
/** Four hours: the longest that an invitation may wait for its use. */
export const maxInvitationSeconds = 4 * 3600;
export const defaultInvitationSeconds = 15 * 60;

export interface Invitation {
  /** Where the federation listener of the inviting site is. */
  readonly url: URL;
  readonly trustDomain: TrustDomain;
  /** SHA-256 of the public key (SubjectPublicKeyInfo) of each of its authorities. */
  readonly keys: readonly Buffer[];
  readonly secret: Buffer;
  readonly expiresAtMs: number;
  /** The one trust domain that may use it. */
  readonly for?: TrustDomain;
  /** The fingerprint of the only keys that may use it. Sites of earlier versions do not read it. */
  readonly forKeys?: string;
}

/** What is stored of the secret: enough to recognise it, useless for redeeming. */
export function secretDigest(secret: Uint8Array): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** The public name of an invitation, under which every step of the handshake is idempotent. */
export function invitationId(digest: Uint8Array): string {
  return createHash('sha256').update('hansa invitation id\0').update(digest).digest('hex');
}

/** Enough of an id to tell invitations apart in a list. */
export function shortId(id: string): string {
  return id.slice(0, 12);
}

/**
 * Shows knowledge of the secret without giving it away, and for this connection alone: whoever
 * relays it to another server presents another certificate there.
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
    }),
  );
  return `${prefix}${body.toString('base64url')}.${checksum(body).toString('base64url')}`;
}

/** Guards against mistakes of copying, not against people: those do not know the secret. */
function checksum(body: Uint8Array): Buffer {
  return createHash('sha256').update(body).digest().subarray(0, checksumBytes);
}

/**
 * Reads one line. Throws HANSA_INVITATION_INVALID where it is not an invitation as a site made it,
 * and HANSA_INVITATION_EXPIRED where its time is over. No error repeats any part of it.
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
    throw invalid(
      `it has ${text.length} characters, and no invitation has more than ${maxCharacters}`,
    );
  }
  if (/\s/.test(text)) throw invalid('it has spaces or line breaks within. Copy it as one line');
  if (!text.startsWith(prefix)) {
    const version = /^hansa(\d{1,4})\./.exec(text)?.[1];
    throw invalid(
      version === undefined
        ? `it does not begin with ${prefix}. Copy the whole line`
        : `it is of version ${version}, and this site reads version 1. Update the older of the two sites`,
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
    throw invalid('a character of it was changed, lost or added on the way. Copy it again');
  }
  return readBody(body);
}

/** Behind the checksum only a hostile or faulty site fails, but what it sends is as bounded as any. */
function readBody(body: Buffer): Invitation {
  const fields = parseObject(body);
  const { u, t, k, s, e, f, p } = fields;
  const url = typeof u === 'string' ? parseSiteURL(u) : undefined;
  if (url === undefined) throw invalid('it names no https URL of a site');
  if (typeof t !== 'string' || TrustDomain.problem(t) !== undefined) {
    throw invalid('it names no trust domain');
  }
  if (!Array.isArray(k) || k.length === 0 || k.length > maxKeys) {
    throw invalid(`it pins no keys, or more than ${maxKeys}`);
  }
  const keys = k.map((key) => digestOf(key, 'a key that it pins is not a SHA-256'));
  const secret = digestOf(s, `its secret is not of ${secretBytes} bytes`);
  if (!Number.isSafeInteger(e) || (e as number) <= 0 || (e as number) > 253_402_300_799) {
    throw invalid('it has no time at which it expires');
  }
  if (f !== undefined && (typeof f !== 'string' || TrustDomain.problem(f) !== undefined)) {
    throw invalid('it is for a site whose trust domain is not one');
  }
  const forKeys = typeof p === 'string' ? parseFingerprint(p) : undefined;
  if (p !== undefined && forKeys === undefined) {
    throw invalid('it is for keys whose fingerprint is not a SHA-256');
  }
  return {
    url,
    trustDomain: TrustDomain.parse(t),
    keys,
    secret,
    expiresAtMs: (e as number) * 1000,
    ...(f === undefined ? {} : { for: TrustDomain.parse(f) }),
    ...(forKeys === undefined ? {} : { forKeys }),
  };
}

function parseObject(body: Buffer): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = parseBoundedJson(body);
  } catch {
    throw invalid('it is not written as a site writes invitations');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid('it is not written as a site writes invitations');
  }
  return value as Readonly<Record<string, unknown>>;
}

function digestOf(value: unknown, otherwise: string): Buffer {
  const bytes = typeof value === 'string' ? fromBase64url(value) : undefined;
  if (bytes?.byteLength !== secretBytes) throw invalid(otherwise);
  return bytes;
}

/** Only the canonical form: two spellings of one invitation would be two to whoever compares lines. */
function fromBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}

function invalid(why: string): HansaError {
  return peeringError('HANSA_INVITATION_INVALID', `Cannot read the invitation: ${why}.`);
}
