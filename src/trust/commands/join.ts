// `hansa join`: joins a site as an agent or a bot. Operators of the site list and forget bots with it.

import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import {
  addProofOptions,
  addServerOptions,
  type JoinFlags,
  proofOf,
} from '../client/join-flags.ts';
import { type JoinWish, joinSite, refuseMember } from '../client/join-site.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { forgetCommand, listCommand } from './join-bots.ts';
import { renewCommand, showJoined } from './join-renew.ts';
import { tokenCommand } from './join-token.ts';
import { findServer } from '../client/join-server.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';

export function joinCommand(kit: CommandKit): Command {
  return new Command('join')
    .description('join a site as an agent or a bot, and manage join tokens and bots')
    .addCommand(runCommand(kit), { isDefault: true })
    .addCommand(renewCommand(kit))
    .addCommand(tokenCommand(kit))
    .addCommand(listCommand(kit))
    .addCommand(forgetCommand(kit))
    .addHelpText(
      'after',
      `
Without a subcommand, hansa join joins a site. For the options, see hansa join run --help.

Examples:
  hansa join --server https://lubeck.example:8443 --trust-domain lubeck.example --bundle lubeck.json \\
    --token machines --name crane-1 --secret-file ./secret --write ./identity`,
    );
}

interface RunOptions extends JoinFlags {
  readonly role?: string;
  readonly write?: string;
  readonly output: OutputFormat;
}

function runCommand(kit: CommandKit): Command {
  const command = addServerOptions(new Command('run'))
    .description('join a site (same as hansa join without a subcommand)')
    .addOption(
      new Option('--role <role>', 'agent or bot (default: agent if --name is set)').choices([
        'agent',
        'bot',
      ]),
    )
    .option('--name <name>', 'the name of the agent; the token sets the name of a bot');
  return addProofOptions(command)
    .option('--write <folder>', 'the folder for svid.pem, svid.key and bundle.pem')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command first verifies the site, which must present spiffe://TRUST-DOMAIN/hansa/site. Then it
proves that it holds the SVID or the secret. Neither the key nor the secret leaves this machine. If
no answer arrives, repeat the same command. Renew the SVID before it expires with hansa join renew.

Examples:
  hansa join --server https://lubeck.example:8443 --trust-domain lubeck.example --bundle lubeck.json \\
    --token machines --name crane-1 --secret-file ./secret --write ./identity
  hansa join --server https://lubeck.example:8443 --trust-domain lubeck.example --fingerprint 7f:3a:… \\
    --token ci-runners --role bot --socket /run/bruges/workload.sock --write ./identity`,
    )
    .action(async (options: RunOptions) => {
      const { io } = kit;
      const wish = wishOf(options);
      if (options.write === undefined)
        throw usageError('--write is required: the folder for the SVID.');
      const prove = await proofOf(io, options);
      const folder = new JoinFolder(resolve(io.cwd, options.write));
      refuseMember(folder);
      const server = await findServer(io, options);
      const joined = await joinSite(io, folder, server, wish, prove);
      showJoined(kit, joined, folder, options.output);
    });
}

function wishOf({ token, name = '', role }: RunOptions): JoinWish {
  if (token === undefined) throw usageError('--token is required: the name of the JoinToken.');
  const chosen = role ?? (name === '' ? 'bot' : 'agent');
  if (chosen === 'agent' && name === '') throw usageError('An agent needs a --name.');
  if (chosen === 'bot' && name !== '') {
    throw usageError('The token sets the name of a bot: remove --name.');
  }
  return { token, role: chosen, name };
}
