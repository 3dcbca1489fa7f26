// hansa join renew: a new SVID with a new key for whoever joined, once or for as long as it runs.

import { createPrivateKey } from 'node:crypto';
import { resolve } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { Command } from 'commander';
import { timestamp } from '../api/object.ts';
import { TrustDomain } from '../api/trust-domain.ts';
import { sleep } from '../core/clock/clock.ts';
import { type ErrorCode, HansaError, toHansaError } from '../core/errors/error.ts';
import { parseCertificatesPem } from '../core/identity/pem.ts';
import { maxChainLength } from '../core/identity/svid-validator.ts';
import type { Joined } from '../trust/join/join-client.ts';
import type { Cli } from './cli.ts';
import { JoinFolder } from './join-folder.ts';
import { parseServer, readBundle } from './join-server.ts';
import { type OutputFormat, outputOption, printable, renderValue } from './output.ts';
import { usageError } from './usage.ts';

interface RenewOptions {
  readonly server?: string;
  readonly write: string;
  readonly watch?: boolean;
  readonly output: OutputFormat;
}

export function renewCommand(cli: Cli): Command {
  return new Command('renew')
    .description('renew the SVID in a folder, with a new key')
    .option('--server <url>', 'where the site is now, if it moved')
    .requiredOption('--write <folder>', 'the folder that hansa join wrote')
    .option('--watch', 'go on, and renew whenever half of its life is over')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Each SVID renews once, and only while it lives: leave it to --watch, or run it every half hour. If
the answer does not arrive, say the same command again.

Examples:
  hansa join renew --write ./identity
  hansa join renew --write ./identity --watch`,
    )
    .action(async (options: RenewOptions) => {
      const folder = new JoinFolder(resolve(cli.io.cwd, options.write));
      if (options.watch !== true) {
        showJoined(cli, await renewOnce(cli, folder, options.server), folder, options.output);
        return;
      }
      // Between two renewals nothing else would keep the process: its clock's timers do not.
      const { port1: anchor } = new MessageChannel();
      anchor.on('message', () => undefined);
      try {
        await keepFresh(cli, folder, options);
      } finally {
        anchor.close();
      }
    });
}

async function renewOnce(
  cli: Cli,
  folder: JoinFolder,
  server: string | undefined,
): Promise<Joined> {
  const { clock, random, interruption } = cli.io;
  const { membership } = folder;
  if (membership === undefined) {
    throw usageError(`Nobody joined with ${folder.path}: it has no join.json.`);
  }
  const url = parseServer(server ?? membership.server);
  const trustDomain = TrustDomain.parse(membership.trustDomain);
  const bundle = readBundle(folder.read('bundle.pem'), trustDomain, 'bundle.pem');
  const { renewSvid } = await import('../trust/join/join-client.ts');
  const key = await folder.nextKey(random);
  const joined = await renewSvid(
    { server: { url, bundle }, clock, random, key, signal: interruption() },
    { instance: membership.instance, generation: BigInt(membership.generation) },
    { chain: chainOf(folder), key: createPrivateKey(folder.read('svid.key')) },
  );
  folder.keep(joined, url);
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
const retryMs = 15_000;

/** Until it is interrupted, is refused, or the SVID has ended without a renewal. */
async function keepFresh(cli: Cli, folder: JoinFolder, options: RenewOptions): Promise<void> {
  const { clock, interruption } = cli.io;
  const signal = interruption();
  while (!signal.aborted) {
    const [leaf] = chainOf(folder);
    if (leaf === undefined) throw usageError(`${folder.path}/svid.pem holds no certificate.`);
    const halfLife = leaf.notBeforeMs + (leaf.notAfterMs - leaf.notBeforeMs) / 2;
    await sleep(clock, Math.max(0, halfLife - clock.now()), signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      showJoined(cli, await renewOnce(cli, folder, options.server), folder, options.output);
    } catch (caught) {
      const error = toHansaError(caught);
      if (signal.aborted) return;
      if (!passing.has(error.code)) throw error;
      if (clock.now() > leaf.notAfterMs) {
        throw new HansaError(
          'HANSA_CERTIFICATE_INVALID',
          `Cannot renew any more: the SVID ended at ${timestamp(leaf.notAfterMs)}. Have the agent forgotten (hansa join forget) and join again. ${error.message}`,
        );
      }
      cli.note(printable(`${error.message} Trying again in ${retryMs / 1000} s.`));
      await sleep(clock, retryMs, signal).catch(() => undefined);
    }
  }
}

export function showJoined(
  cli: Cli,
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
  const rendered = renderValue(told, output);
  cli.print(rendered ?? printable(`${told.spiffeId} until ${told.notAfter} is in ${told.folder}.`));
}
