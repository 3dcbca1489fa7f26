// The stored form of the site's authorities: a small JSON record, which the store seals. Version 1
// had only X.509 authorities, and no times.

import { createPublicKey, type KeyObject } from 'node:crypto';
import { HansaError } from '../../errors/error.ts';
import type { AuditRow } from '../../store/store.ts';
import {
  type AuthorityPhase,
  type AuthorityState,
  clockSkewMs,
  maxAuthoritiesOfAKind,
} from './phases.ts';
import { Certificate } from '../x509/certificate.ts';
import { exportPkcs8, importPkcs8 } from '../x509/keys.ts';

export interface X509Entry extends AuthorityPhase {
  /** The certificate that signs. */
  readonly certificate: Certificate;
  /** Its chain to a root, itself first; empty where it is a root. */
  readonly chain: readonly Certificate[];
  /** The roots that verify it. */
  readonly roots: readonly Certificate[];
  /** Undefined as soon as it signs no more. */
  readonly privateKey: KeyObject | undefined;
}

export interface JwtEntry extends AuthorityPhase {
  readonly publicKey: KeyObject;
  /** Undefined as soon as it signs no more. */
  readonly privateKey: KeyObject | undefined;
}

export interface AuthorityRecord {
  readonly x509: readonly X509Entry[];
  /** Empty in records of version 1 only. */
  readonly jwt: readonly JwtEntry[];
}

/**
 * Stores the record sealed; arguments and results are plain text. Implementations do not overwrite
 * them; the callers here do, after use.
 */
export interface AuthorityVault {
  load(): Promise<Buffer | undefined>;
  /** Durable before it resolves. False, and nothing is changed, where there is a record already. */
  create(record: Buffer): Promise<boolean>;
  /**
   * Replaces the record that was loaded or created last, and commits these audit records with it.
   * Durable before it resolves. Rejects with HANSA_CONFLICT where another writer changed the record.
   */
  replace(record: Buffer, audit: readonly AuditRow[]): Promise<void>;
  /** Calls `listener` after every change of the record, by any replica. Returns how to stop. */
  watch?(changed: () => void): () => void;
}

const recordVersion = 2;

export function encodeAuthorities(trustDomain: string, { x509, jwt }: AuthorityRecord): Buffer {
  return Buffer.from(
    JSON.stringify({
      version: recordVersion,
      trustDomain,
      x509: x509.map((entry) => ({
        ...phaseFields(entry),
        certificate: base64(entry.certificate),
        chain: entry.chain.map(base64),
        roots: entry.roots.map(base64),
        privateKey: privateKeyText(entry.privateKey),
      })),
      jwt: jwt.map((entry) => ({
        ...phaseFields(entry),
        id: entry.id,
        notBeforeMs: entry.notBeforeMs,
        notAfterMs: entry.notAfterMs,
        publicKey: entry.publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
        privateKey: privateKeyText(entry.privateKey),
      })),
    }),
  );
}

function phaseFields(phase: AuthorityPhase): object {
  const { state, preparedAtMs, activatedAtMs, retiredAtMs, taintedAtMs } = phase;
  return { state, preparedAtMs, activatedAtMs, retiredAtMs, taintedAtMs };
}

function base64(certificate: Certificate): string {
  return certificate.der.toString('base64');
}

function privateKeyText(key: KeyObject | undefined): string | undefined {
  if (key === undefined) return undefined;
  const pkcs8 = exportPkcs8(key);
  try {
    return pkcs8.toString('base64');
  } finally {
    pkcs8.fill(0);
  }
}

/** Throws HANSA_STORE_CORRUPT, HANSA_STORE_NEWER or HANSA_SEAL_BROKEN; messages never show the record. */
export function decodeAuthorities(
  record: Buffer,
): AuthorityRecord & { readonly trustDomain: string } {
  const parsed = parseJson(record);
  const { version, trustDomain } = parsed;
  if (typeof version === 'number' && version > recordVersion) {
    throw new HansaError(
      'HANSA_STORE_NEWER',
      `Cannot load the site's authority: its record has version ${version}, but this version of Hansa reads up to ${recordVersion}. Start the newer version.`,
    );
  }
  if (typeof trustDomain !== 'string') throw corrupt();
  const first = version === 1;
  const x509 = listOf(first ? parsed['authorities'] : parsed['x509']).map((entry) =>
    first ? decodeVersion1(entry) : decodeX509(entry),
  );
  const jwt = first ? [] : listOf(parsed['jwt']).map(decodeJwt);
  if (!hasOneActive(x509) || (!first && !hasOneActive(jwt))) throw corrupt();
  return { trustDomain, x509, jwt };
}

type Fields = Readonly<Record<string, unknown>>;

function decodeVersion1(fields: Fields): X509Entry {
  const certificate = certificateOf(fields['certificate']);
  const madeAtMs = certificate.notBeforeMs + clockSkewMs;
  const state = stateOf(fields);
  return {
    id: certificate.fingerprint,
    state,
    notBeforeMs: certificate.notBeforeMs,
    notAfterMs: certificate.notAfterMs,
    preparedAtMs: madeAtMs,
    activatedAtMs: state === 'prepared' ? undefined : madeAtMs,
    retiredAtMs: state === 'old' ? certificate.notAfterMs : undefined,
    taintedAtMs: undefined,
    certificate,
    chain: [],
    roots: [certificate],
    privateKey: privateKeyOf(fields),
  };
}

function decodeX509(fields: Fields): X509Entry {
  const certificate = certificateOf(fields['certificate']);
  const roots = listOfTexts(fields['roots']).map(certificateOf);
  if (roots.length === 0) throw corrupt();
  return {
    ...phaseOf(fields),
    id: certificate.fingerprint,
    notBeforeMs: certificate.notBeforeMs,
    notAfterMs: certificate.notAfterMs,
    certificate,
    chain: listOfTexts(fields['chain']).map(certificateOf),
    roots,
    privateKey: privateKeyOf(fields),
  };
}

function decodeJwt(fields: Fields): JwtEntry {
  const { id, publicKey } = fields;
  if (typeof id !== 'string' || typeof publicKey !== 'string') throw corrupt();
  try {
    return {
      ...phaseOf(fields),
      id,
      notBeforeMs: timeOf(fields['notBeforeMs']),
      notAfterMs: timeOf(fields['notAfterMs']),
      publicKey: createPublicKey({
        key: Buffer.from(publicKey, 'base64'),
        format: 'der',
        type: 'spki',
      }),
      privateKey: privateKeyOf(fields),
    };
  } catch (error) {
    throw error instanceof HansaError ? error : corrupt();
  }
}

function phaseOf(fields: Fields): Omit<AuthorityPhase, 'id' | 'notBeforeMs' | 'notAfterMs'> {
  const optionalTime = (name: string): number | undefined =>
    fields[name] === undefined ? undefined : timeOf(fields[name]);
  return {
    state: stateOf(fields),
    preparedAtMs: timeOf(fields['preparedAtMs']),
    activatedAtMs: optionalTime('activatedAtMs'),
    retiredAtMs: optionalTime('retiredAtMs'),
    taintedAtMs: optionalTime('taintedAtMs'),
  };
}

function hasOneActive(entries: readonly (X509Entry | JwtEntry)[]): boolean {
  return (
    entries.length <= maxAuthoritiesOfAKind &&
    entries.filter(({ state }) => state === 'active').length === 1 &&
    entries.every(
      ({ state, privateKey }) => privateKey !== undefined || state === 'old' || state === 'tainted',
    )
  );
}

function parseJson(record: Buffer): Fields {
  try {
    const parsed: unknown = JSON.parse(record.toString());
    if (isObject(parsed)) return parsed;
  } catch {
    // The parser's message would quote the record.
  }
  throw corrupt();
}

const states: ReadonlySet<unknown> = new Set<AuthorityState>([
  'prepared',
  'active',
  'old',
  'tainted',
]);

function stateOf({ state }: Fields): AuthorityState {
  if (!states.has(state)) throw corrupt();
  return state as AuthorityState;
}

function timeOf(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw corrupt();
  return value;
}

function certificateOf(text: unknown): Certificate {
  if (typeof text !== 'string') throw corrupt();
  return Certificate.parse(Buffer.from(text, 'base64'));
}

function privateKeyOf({ privateKey }: Fields): KeyObject | undefined {
  if (privateKey === undefined) return undefined;
  if (typeof privateKey !== 'string') throw corrupt();
  const pkcs8 = Buffer.from(privateKey, 'base64');
  try {
    return importPkcs8(pkcs8);
  } finally {
    pkcs8.fill(0);
  }
}

function listOf(value: unknown): readonly Fields[] {
  if (!Array.isArray(value) || !value.every(isObject)) throw corrupt();
  return value;
}

function listOfTexts(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw corrupt();
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function corrupt(): HansaError {
  return new HansaError(
    'HANSA_STORE_CORRUPT',
    "Cannot load the site's authority: its record is corrupt. Restore the data folder from a backup.",
  );
}
