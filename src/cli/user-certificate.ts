// How `hansa login` and `hansa credential` come by a user certificate: from the cache, or from the
// site with a new key. The key is made here and never leaves this machine.

import { createHash, createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import type { UserCredential } from '../core/access/user-credentials.ts';
import { HansaError, hasCode } from '../core/errors/error.ts';
import { exportPkcs8, generateP256 } from '../core/identity/keys.ts';
import { privateKeyPem } from '../core/identity/pem.ts';
import { type Cli, globalOptions } from './cli.ts';
import type { SiteClient } from './client.ts';
import { dataDirOf } from './connection.ts';
import {
  type CachedCredential,
  cacheFolder,
  type CredentialKey,
  credentialFile,
  readCredential,
  writeCredential,
} from './credential-cache.ts';

export interface ObtainedCredential {
  readonly credential: CachedCredential;
  /** Undefined where it could not be kept. */
  readonly file: string | undefined;
}

/** A certificate that is about to expire is not worth starting with. */
const leastRemainingMs = 60_000;
const leastRemainingShare = 0.2;

/** The last moment at which the credential should be used for something new. */
export function renewAtMs({ issuedAtMs, notAfterMs }: CachedCredential): number {
  const lifeMs = notAfterMs - issuedAtMs;
  return notAfterMs - Math.min(lifeMs, Math.max(leastRemainingMs, lifeMs * leastRemainingShare));
}

export function obtainCredential(
  cli: Cli,
  command: Command,
  options: { readonly user: string | undefined; readonly fresh: boolean },
): Promise<ObtainedCredential> {
  return cli.withClient(command, async (client) => {
    const { io } = cli;
    const folder = cacheFolder(io.env);
    const { caDigest, tokenDigest } = surroundings(cli, command);
    const key: CredentialKey = { target: client.target, caDigest, user: options.user ?? '' };
    if (!options.fresh && folder !== undefined) {
      const file = credentialFile(folder, key);
      const cached = readCredential(file);
      // Without a token at hand, what an earlier login left is all there is.
      const sameToken = tokenDigest === undefined || cached?.tokenDigest === tokenDigest;
      if (cached !== undefined && sameToken && io.clock.now() < renewAtMs(cached))
        return { credential: cached, file };
    }
    const issued = await request(cli, client, options.user);
    const credential: CachedCredential = {
      ...issued,
      ...(tokenDigest === undefined ? {} : { tokenDigest }),
    };
    const file = folder === undefined ? undefined : writeCredential(folder, key, credential);
    return { credential, file };
  });
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
      path: '/hansa/v1/user-svids',
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

/** The site tells nobody why; here it can be told what to do. */
function refused(target: string): HansaError {
  return new HansaError(
    'HANSA_UNAUTHENTICATED',
    `Cannot log in at ${target}: no token was given, or it is expired, revoked or of another site. Name one with --token-file; \`hansa access token create\` makes a new one.`,
  );
}

function surroundings(
  cli: Cli,
  command: Command,
): { readonly caDigest: string; readonly tokenDigest: string | undefined } {
  const { io } = cli;
  const options = globalOptions(command);
  const path = (flag: string | undefined, variable: string): string | undefined => {
    const given = flag ?? io.env[variable];
    return given === undefined || given === '' ? undefined : resolve(io.cwd, given);
  };
  const site = options.site ?? io.env['HANSA_SITE'] ?? '';
  const ownCa = join(dataDirOf(options, io), 'ca.pem');
  // The socket has no use for the other files, and says so by not reading them.
  const caFile = site === '' ? ownCa : (path(options.caFile, 'HANSA_CA_FILE') ?? ownCa);
  const tokenFile = site === '' ? undefined : path(options.tokenFile, 'HANSA_TOKEN_FILE');
  return {
    caDigest: digestOf(caFile) ?? '',
    tokenDigest: tokenFile === undefined ? undefined : (digestOf(tokenFile) ?? ''),
  };
}

/** Undefined where the file cannot be read; whoever needs it says so better. */
function digestOf(file: string): string | undefined {
  try {
    return createHash('sha256').update(readFileSync(file, 'utf8').trim()).digest('hex');
  } catch {
    return undefined;
  }
}
