// The site's authorities as they are kept: a small JSON record, sealed by whoever keeps it.

import type { KeyObject } from 'node:crypto';
import { HansaError } from '../errors/error.ts';
import type { AuditRow } from '../store/store.ts';
import { Certificate } from './certificate.ts';
import { exportPkcs8, importPkcs8 } from './keys.ts';

/**
 * prepared: published, so that everyone trusts it before it signs. active: signs; there is one.
 * old: signs no more, and stays published until the last SVID under it has expired.
 */
export type AuthorityState = 'prepared' | 'active' | 'old';

export interface AuthorityEntry {
  readonly state: AuthorityState;
  readonly certificate: Certificate;
  readonly privateKey: KeyObject;
}

/**
 * Keeps the record sealed: what is passed and returned is plain, what is at rest is not.
 * Implementations overwrite neither argument nor result; the callers here do, once they are done.
 */
export interface AuthorityVault {
  load(): Promise<Buffer | undefined>;
  /** Durable before it resolves. False, and nothing is changed, where there is a record already. */
  create(record: Buffer): Promise<boolean>;
  /**
   * Takes the place of the record that was loaded or created last, together with these rows of the
   * audit log. Durable before it resolves. Rejects with HANSA_CONFLICT where somebody else changed it.
   */
  replace(record: Buffer, audit: readonly AuditRow[]): Promise<void>;
}

const recordVersion = 1;

export function encodeAuthorities(trustDomain: string, entries: readonly AuthorityEntry[]): Buffer {
  return Buffer.from(
    JSON.stringify({
      version: recordVersion,
      trustDomain,
      authorities: entries.map(({ state, certificate, privateKey }) => ({
        state,
        certificate: certificate.der.toString('base64'),
        privateKey: exportPkcs8(privateKey).toString('base64'),
      })),
    }),
  );
}

/** Throws HANSA_STORE_CORRUPT, HANSA_STORE_NEWER or HANSA_SEAL_BROKEN; messages never show the record. */
export function decodeAuthorities(record: Buffer): {
  readonly trustDomain: string;
  readonly entries: readonly AuthorityEntry[];
} {
  const parsed = parseJson(record);
  if (typeof parsed['version'] === 'number' && parsed['version'] > recordVersion) {
    throw new HansaError(
      'HANSA_STORE_NEWER',
      `Cannot load the site's authority: its record is of version ${parsed['version']}, and this Hansa knows ${recordVersion}. Start the newer version.`,
    );
  }
  const { trustDomain, authorities } = parsed;
  if (typeof trustDomain !== 'string' || !Array.isArray(authorities)) throw corrupt();
  const entries = authorities.map(decodeEntry);
  if (entries.filter(({ state }) => state === 'active').length !== 1) throw corrupt();
  return { trustDomain, entries };
}

function parseJson(record: Buffer): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(record.toString());
    if (isObject(parsed)) return parsed;
  } catch {
    // The parser's message would quote the record.
  }
  throw corrupt();
}

function decodeEntry(entry: unknown): AuthorityEntry {
  if (!isObject(entry)) throw corrupt();
  const { state, certificate, privateKey } = entry;
  if (state !== 'prepared' && state !== 'active' && state !== 'old') throw corrupt();
  if (typeof certificate !== 'string' || typeof privateKey !== 'string') throw corrupt();
  const pkcs8 = Buffer.from(privateKey, 'base64');
  try {
    return {
      state,
      certificate: Certificate.parse(Buffer.from(certificate, 'base64')),
      privateKey: importPkcs8(pkcs8),
    };
  } finally {
    pkcs8.fill(0);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function corrupt(): HansaError {
  return new HansaError(
    'HANSA_STORE_CORRUPT',
    "Cannot load the site's authority: its record is not one that Hansa wrote. Restore the data folder from a backup.",
  );
}
