// hansa join renew: a new SVID with a new key for whoever joined, once or for as long as it runs.

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
      const parts = { io: kit.io, folder, server: options.server };
      const show = (joined: Joined): void => showJoined(kit, joined, folder, options.output);
      if (options.watch !== true) {
        show(await renewOnce(parts));
        return;
      }
      // Between two renewals nothing else would keep the process: its clock's timers do not.
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
  kit.print(rendered ?? printable(`${told.spiffeId} until ${told.notAfter} is in ${told.folder}.`));
}
