// Caches user certificates in a folder that only the user can read. kubectl asks for a certificate at
// each call, and each issued certificate adds a record to the audit log of the site. A file contains a
// line of metadata, the key and the certificate in PEM, so it also works as --client-certificate and
// --client-key, and with curl.

import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Io } from '../../core/plane/command-kit.ts';

export interface CachedCredential {
  readonly user: string;
  readonly spiffeId: string;
  readonly issuedAtMs: number;
  readonly notAfterMs: number;
  /** PEM. */
  readonly certificate: string;
  readonly privateKey: string;
}

/** Identifies a cached credential. Another site, authority, user or token has another credential. */
export interface CredentialKey {
  /** The socket or URL. */
  readonly target: string;
  /** SHA-256 of the CA file: a site that was installed again does not accept earlier certificates. */
  readonly caDigest: string;
  /** The requested user, or empty. */
  readonly user: string;
  /** SHA-256 of the token: two tokens are two users. */
  readonly tokenDigest?: string | undefined;
}

const heading = 'hansa credential ';

/** An absolute path; undefined without a home folder. */
export function cacheFolder(env: Io['env']): string | undefined {
  const own = env['HANSA_HOME'];
  if (own?.startsWith('/') === true) return join(own, 'credentials');
  const given = env['XDG_CACHE_HOME'];
  // The XDG specification ignores relative paths.
  if (given?.startsWith('/') === true) return join(given, 'hansa', 'credentials');
  const home = env['HOME'];
  return home?.startsWith('/') === true ? join(home, '.cache', 'hansa', 'credentials') : undefined;
}

export function credentialFile(folder: string, key: CredentialKey): string {
  const name = createHash('sha256')
    .update(JSON.stringify([key.target, key.caDigest, key.user, key.tokenDigest ?? '']))
    .digest('hex');
  return join(folder, `${name.slice(0, 32)}.pem`);
}

/** Undefined if there is no such file, or other users could have read or written it. */
export function readCredential(file: string): CachedCredential | undefined {
  try {
    const { mode, uid } = lstatSync(file);
    // oxlint-disable-next-line no-bitwise -- file modes are bits
    if ((mode & 0o170777) !== 0o100600 || uid !== process.getuid?.()) return undefined;
    return parseCredential(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/** Returns the path; undefined if it could not write, which only costs speed. */
export function writeCredential(
  folder: string,
  key: CredentialKey,
  credential: CachedCredential,
): string | undefined {
  const file = credentialFile(folder, key);
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { mode, uid } = lstatSync(folder);
    // oxlint-disable-next-line no-bitwise -- file modes are bits
    if ((mode & 0o170077) !== 0o040000 || uid !== process.getuid?.()) return undefined;
    // Write atomically: other commands may write at the same time.
    writeFileSync(draft, renderCredential(credential), { mode: 0o600, flag: 'wx' });
    renameSync(draft, file);
    return file;
  } catch {
    rmSync(draft, { force: true });
    return undefined;
  }
}

export function renderCredential(credential: CachedCredential): string {
  const { certificate, privateKey, ...about } = credential;
  return `${heading}${JSON.stringify(about)}\n${privateKey}${certificate}`;
}

export function parseCredential(text: string): CachedCredential | undefined {
  const end = text.indexOf('\n');
  const certificateAt = text.indexOf('-----BEGIN CERTIFICATE-----');
  if (!text.startsWith(heading) || end < 0 || certificateAt < end) return undefined;
  try {
    const about = JSON.parse(text.slice(heading.length, end)) as CachedCredential;
    if (typeof about.user !== 'string' || !Number.isFinite(about.notAfterMs)) return undefined;
    if (!Number.isFinite(about.issuedAtMs)) return undefined;
    return {
      ...about,
      privateKey: text.slice(end + 1, certificateAt),
      certificate: text.slice(certificateAt),
    };
  } catch {
    return undefined;
  }
}
