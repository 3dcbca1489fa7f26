// hansa join renew: a new SVID with a new key for whoever joined, once or for as long as it runs.

import { createPrivateKey } from 'node:crypto';
import { resolve } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { Command } from 'commander';
import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/trust-domain.ts';
import { sleep } from '../../core/clock/clock.ts';
import { type ErrorCode, HansaError, toHansaError } from '../../core/errors/error.ts';
import { parseCertificatesPem } from '../../core/identity/pem.ts';
import { maxChainLength } from '../../core/identity/svid-validator.ts';
import type { Joined, JoinServer } from '../join/join-client.ts';
import { JoinFolder, type Membership } from '../client/join-folder.ts';
import { parseServer, readBundle, readGiven, refreshBundle } from '../client/join-server.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

interface RenewOptions {
  readonly server?: string;
  readonly bundle?: string;
  readonly write: string;
  readonly watch?: boolean;
  readonly output: OutputFormat;
}

export function renewCommand(kit: CommandKit): Command {
  return new Command('renew')
    .description('renew the SVID in a folder, with a new key')
    .option('--server <url>', 'where the site is now, if it moved')
    .option('--bundle <file>', 'its bundle, if its authorities changed unseen')
    .requiredOption('--write <folder>', 'the folder that hansa join wrote')
    .option('--watch', 'go on, and renew whenever half of its life is over')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Each SVID renews once, and only while it lives: leave it to --watch, which also keeps bundle.pem
fresh, or run it every half hour. If the answer does not arrive, say the same command again.

Examples:
  hansa join renew --write ./identity
  hansa join renew --write ./identity --watch`,
    )
    .action(async (options: RenewOptions) => {
      const folder = new JoinFolder(resolve(kit.io.cwd, options.write));
      if (options.bundle !== undefined) {
        const text = readGiven(resolve(kit.io.cwd, options.bundle), '--bundle');
        const trustDomain = TrustDomain.parse(membershipOf(folder).trustDomain);
        folder.keepBundle(readBundle(text, trustDomain, options.bundle));
      }
      if (options.watch !== true) {
        showJoined(kit, await renewOnce(kit, folder, options), folder, options.output);
        return;
      }
      // Between two renewals nothing else would keep the process: its clock's timers do not.
      const { port1: anchor } = new MessageChannel();
      anchor.on('message', () => undefined);
      try {
        await keepFresh(kit, folder, options);
      } finally {
        anchor.close();
      }
    });
}

function membershipOf(folder: JoinFolder): Membership {
  const { membership } = folder;
  if (membership !== undefined) return membership;
  throw usageError(`Nobody joined with ${folder.path}: it has no join.json.`);
}

function serverOf(folder: JoinFolder, options: RenewOptions): JoinServer {
  const { server, trustDomain } = membershipOf(folder);
  return {
    url: parseServer(options.server ?? server),
    bundle: readBundle(folder.read('bundle.pem'), TrustDomain.parse(trustDomain), 'bundle.pem'),
  };
}

async function renewOnce(
  kit: CommandKit,
  folder: JoinFolder,
  options: RenewOptions,
): Promise<Joined> {
  const { clock, random, interruption } = kit.io;
  const membership = membershipOf(folder);
  const server = serverOf(folder, options);
  const { renewSvid } = await import('../join/join-client.ts');
  const key = await folder.nextKey(random);
  const joined = await renewSvid(
    { server, clock, random, key, signal: interruption() },
    { instance: membership.instance, generation: BigInt(membership.generation) },
    { chain: chainOf(folder), key: createPrivateKey(folder.read('svid.key')) },
  );
  folder.keep(joined, server.url);
  return joined;
}

const chainOf = (folder: JoinFolder): Joined['chain'] =>
  parseCertificatesPem(folder.read('svid.pem'), maxChainLength);

/** What time may heal: the site is away, or has too much to do. */
const passing: ReadonlySet<ErrorCode> = new Set([
  'HANSA_UNREACHABLE',
  'HANSA_TIMEOUT',
  'HANSA_UNAVAILABLE',
  'HANSA_TOO_MANY_REQUESTS',
  'HANSA_INTERNAL',
]);
/** Whether the same attempt may succeed later. */
export function isPassing(error: unknown): boolean {
  return passing.has(toHansaError(error).code);
}

const retryMs = 15_000;

/** Until it is interrupted, is refused, or the SVID has ended without a renewal. */
async function keepFresh(
  kit: CommandKit,
  folder: JoinFolder,
  options: RenewOptions,
): Promise<void> {
  const { clock, interruption } = kit.io;
  const signal = interruption();
  const startedMs = clock.now();
  let bundleAtMs = startedMs;
  let told = false;
  while (!signal.aborted) {
    const [leaf] = chainOf(folder);
    if (leaf === undefined) throw usageError(`${folder.path}/svid.pem holds no certificate.`);
    const halfLifeMs = leaf.notBeforeMs + (leaf.notAfterMs - leaf.notBeforeMs) / 2;
    // Else half an hour would pass without a word.
    if (!told && halfLifeMs > startedMs) kit.note(`Renews at ${timestamp(halfLifeMs)}.`);
    told = true;
    const renews = halfLifeMs <= bundleAtMs;
    const delayMs = Math.min(halfLifeMs, bundleAtMs) - clock.now();
    await sleep(clock, Math.max(0, delayMs), signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      if (renews) showJoined(kit, await renewOnce(kit, folder, options), folder, options.output);
      else {
        const fresh = await refreshBundle(kit.io, serverOf(folder, options));
        folder.keepBundle(fresh.bundle);
        bundleAtMs = clock.now() + fresh.againAfterMs;
      }
    } catch (caught) {
      if (signal.aborted) return;
      const error = toHansaError(caught);
      // A bundle that cannot be had now is no reason to give up what still works.
      if (renews && !isPassing(error)) throw error;
      if (clock.now() > leaf.notAfterMs) throw tooLate(leaf.notAfterMs, error);
      kit.note(printable(`${error.message} Trying again in ${retryMs / 1000} s.`));
      if (!renews) bundleAtMs = clock.now() + retryMs;
      else await sleep(clock, retryMs, signal).catch(() => undefined);
    }
  }
}

function tooLate(notAfterMs: number, { message }: HansaError): HansaError {
  return new HansaError(
    'HANSA_CERTIFICATE_INVALID',
    `Cannot renew any more: the SVID ended at ${timestamp(notAfterMs)}. Have the agent forgotten (hansa join forget) and join again. ${message}`,
  );
}

export function showJoined(
  kit: CommandKit,
  joined: Joined,
  folder: JoinFolder,
  output: OutputFormat,
): void {
  const told = {
    spiffeId: joined.id.toString(),
    notAfter: timestamp(joined.notAfterMs),
    serialNumber: joined.chain[0]?.serialHex ?? '',
    generation: joined.generation.toString(),
    folder: folder.path,
  };
  const rendered = kit.renderValue(told, output);
  kit.print(rendered ?? printable(`${told.spiffeId} until ${told.notAfter} is in ${told.folder}.`));
}
