// `hansa join renew`: renews the SVID of an agent or a bot with a new key, once or continuously.

import { resolve } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { Command } from 'commander';
import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { printable } from '../../core/command/columns.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { keepFresh, membershipOf, renewOnce } from '../client/join-renewal.ts';
import { readBundle, readGiven } from '../client/join-server.ts';
import type { Joined } from '../client/join-client.ts';

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
    .option('--server <url>', 'the new URL of the site, if it moved')
    .option('--bundle <file>', 'the current bundle of the site, if bundle.pem is out of date')
    .requiredOption('--write <folder>', 'the folder that hansa join wrote')
    .option('--watch', 'keep running, and renew at half of the lifetime')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Each SVID can be renewed once. Use --watch, which also keeps bundle.pem current, or run the command
every half hour. If no answer arrives, repeat the same command. After an SVID has expired, the site
accepts its key for some time, seven days by default.

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
      const parts = { io: kit.io, folder, server: options.server };
      const show = (joined: Joined): void => showJoined(kit, joined, folder, options.output);
      if (options.watch !== true) {
        show(await renewOnce(parts));
        return;
      }
      // The timers of the clock do not keep the process alive between two renewals. This port does.
      const { port1: anchor } = new MessageChannel();
      anchor.on('message', () => undefined);
      try {
        await keepFresh(parts, show, (text) => kit.note(printable(text)));
      } finally {
        anchor.close();
      }
    });
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
  kit.print(
    rendered ??
      printable(
        `Wrote the SVID of ${told.spiffeId}, valid until ${told.notAfter}, to ${told.folder}.`,
      ),
  );
}
