// How `hansa login` and `hansa credential` get a user certificate: from the cache, or from the site for
// a new key. The key is generated here and never leaves this machine.

import { createHash, createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { UserCredential } from '../../core/access/user-credentials.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { exportPkcs8, generateP256 } from '../../core/identity/x509/keys.ts';
import { privateKeyPem } from '../../core/identity/x509/pem.ts';
import type { Cli } from '../cli.ts';
import type { Connection } from './connection.ts';
import { Contexts } from './contexts.ts';
import {
  type CachedCredential,
  cacheFolder,
  type CredentialKey,
  credentialFile,
  readCredential,
  writeCredential,
} from './credential-cache.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { sitePaths } from '../../server/routes/paths.ts';

export interface ObtainedCredential {
  readonly credential: CachedCredential;
  /** Undefined if it could not be stored. */
  readonly file: string | undefined;
}

/** A certificate with less time left is not used for a new command. */
const leastRemainingMs = 60_000;
const leastRemainingShare = 0.2;

/** From this time on, a new command needs a new credential. */
export function renewAtMs({ issuedAtMs, notAfterMs }: CachedCredential): number {
  const lifeMs = notAfterMs - issuedAtMs;
  return notAfterMs - Math.min(lifeMs, Math.max(leastRemainingMs, lifeMs * leastRemainingShare));
}

export function obtainCredential(
  cli: Cli,
  connection: Connection,
  options: { readonly user: string | undefined; readonly fresh: boolean },
): Promise<ObtainedCredential> {
  return cli.withConnection(connection, async (client) => {
    const { io } = cli;
    const folder = cacheFolder(io.env);
    const { caDigest, tokenDigest } = digestsOf(connection);
    const key: CredentialKey = {
      target: client.target,
      caDigest,
      user: options.user ?? '',
      tokenDigest,
    };
    if (!options.fresh && folder !== undefined) {
      const file = tokenDigest === undefined ? loginFor(io, connection) : undefined;
      for (const known of [credentialFile(folder, key), ...(file === undefined ? [] : [file])]) {
        const cached = readCredential(known);
        if (cached !== undefined && io.clock.now() < renewAtMs(cached)) {
          return { credential: cached, file: known };
        }
      }
    }
    const credential = await request(cli, client, options.user);
    const file = folder === undefined ? undefined : writeCredential(folder, key, credential);
    return { credential, file };
  });
}

/** Without a token: the login of the context, or of another context for the same site. */
function loginFor(io: Io, connection: Connection): string | undefined {
  if (connection.via === 'socket') return undefined;
  const contexts = new Contexts(io.env);
  const current = connection.context ?? contexts.current();
  const found = contexts.usable().filter(({ name, site, credential }) => {
    if (connection.context !== undefined && connection.context !== name) return false;
    const isSame = site !== undefined && new URL(site).href === connection.url.href;
    return isSame && credential !== undefined;
  });
  return (found.find(({ name }) => name === current) ?? found[0])?.credential;
}

async function request(
  cli: Cli,
  client: SiteClient,
  user: string | undefined,
): Promise<CachedCredential> {
  const key = await generateP256(cli.io.random);
  const issuedAtMs = cli.io.clock.now();
  const publicKey = createPublicKey(key).export({ format: 'pem', type: 'spki' }).toString();
  const answer = await client
    .request({
      method: 'POST',
      path: sitePaths.userSvids,
      body: { publicKey, ...(user === undefined ? {} : { user }) },
    })
    .catch((error: unknown) => {
      throw hasCode(error, 'HANSA_UNAUTHENTICATED') ? refused(client.target) : error;
    });
  const issued = answer.body as UserCredential;
  return {
    user: issued.user,
    spiffeId: issued.spiffeId,
    issuedAtMs,
    notAfterMs: Date.parse(issued.notAfter),
    certificate: issued.certificate,
    privateKey: privateKeyPem(exportPkcs8(key)),
  };
}

/** The site does not say why it rejects a credential. This error lists the possible reasons. */
function refused(target: string): HansaError {
  return new HansaError(
    'HANSA_UNAUTHENTICATED',
    `Cannot log in at ${target}: there is no token, or it is expired, revoked or from another site. Name a token with --token-file. To create one: hansa access token create`,
  );
}

function digestsOf(connection: Connection): {
  readonly caDigest: string;
  readonly tokenDigest: string | undefined;
} {
  if (connection.via === 'socket') {
    return { caDigest: digestOf(join(connection.dataDir, 'ca.pem')) ?? '', tokenDigest: undefined };
  }
  const { caFile, tokenFile } = connection;
  return {
    caDigest: digestOf(caFile) ?? '',
    tokenDigest: tokenFile === undefined ? undefined : (digestOf(tokenFile) ?? ''),
  };
}

/** Undefined if the file cannot be read. The code that needs the file reports that. */
function digestOf(file: string): string | undefined {
  try {
    return createHash('sha256').update(readFileSync(file, 'utf8').trim()).digest('hex');
  } catch {
    return undefined;
  }
}
