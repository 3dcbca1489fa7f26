// The options by which a machine or program joins a site, for all commands that join, and how they become
// a request and a proof.

import { createPrivateKey } from 'node:crypto';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { usageError } from '../../core/command/usage-error.ts';
import { parseCertificatesPem } from '../../core/identity/x509/pem.ts';
import { maxChainLength } from '../../core/identity/x509/svid-validator.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import type { SvidCredential } from './join-client.ts';
import { readGiven, type ServerOptions } from './join-server.ts';
import { type Prove, svidFromSocket } from './join-site.ts';

export interface JoinFlags extends ServerOptions {
  readonly token?: string;
  readonly name?: string;
  readonly svid?: string;
  readonly key?: string;
  readonly socket?: string;
  readonly secretFile?: string;
}

export function addServerOptions(command: Command): Command {
  return command
    .option('--server <url>', "the URL of the site's federation listener")
    .option('--trust-domain <name>', 'the trust domain of the site')
    .option('--bundle <file>', 'the bundle of the site: SPIFFE or PEM')
    .option('--fingerprint <line>', 'the fingerprint of the bundle, instead of --bundle')
    .option('--token <name>', 'the JoinToken to use');
}

export function addProofOptions(command: Command): Command {
  return command
    .option('--svid <file>', 'prove identity with this X.509-SVID and its intermediates, in PEM')
    .option('--key <file>', 'the private key of --svid, in PEM')
    .option(
      '--socket <path>',
      'prove identity with an SVID from this workload socket, instead of --svid',
    )
    .option(
      '--secret-file <file>',
      'prove possession of the secret in this file, instead of --svid',
    );
}

/** Reads all input before the first call. */
export async function proofOf(
  io: Pick<Io, 'cwd' | 'interruption' | 'clock'>,
  { svid, key, socket, secretFile }: JoinFlags,
): Promise<Prove> {
  const given = [svid ?? key, socket, secretFile].filter((each) => each !== undefined);
  if (given.length !== 1 || (svid === undefined) !== (key === undefined)) {
    throw usageError('Set exactly one proof: --svid with --key, --socket, or --secret-file.');
  }
  // Loaded here, so that no other command waits for it.
  const client = await import('./join-client.ts');
  if (secretFile !== undefined) {
    const { decodeSecret } = await import('../join/secret.ts');
    const seed = decodeSecret(readGiven(resolve(io.cwd, secretFile), '--secret-file'));
    return (parts, wish) => client.joinBySecret(parts, wish, seed);
  }
  const credential =
    socket === undefined
      ? readSvid(io, svid ?? '', key ?? '')
      : await svidFromSocket({
          socket: resolve(io.cwd, socket),
          signal: io.interruption(),
          clock: io.clock,
        });
  return (parts, wish) => client.joinBySvid(parts, wish, credential);
}

function readSvid(io: Pick<Io, 'cwd'>, svid: string, key: string): SvidCredential {
  const chain = parseCertificatesPem(readGiven(resolve(io.cwd, svid), '--svid'), maxChainLength);
  if (chain.length === 0) throw usageError(`${svid} (--svid) contains no PEM certificate.`);
  const pem = readGiven(resolve(io.cwd, key), '--key');
  try {
    return { chain, key: createPrivateKey(pem) };
  } catch {
    // Without its cause, which may quote the key.
    throw usageError(`${key} (--key) contains no PEM private key.`);
  }
}
