// `hansa join`: joins a site as an agent or a bot. Operators of the site list and forget members with it.

import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import type { MemberSummary } from '../join/join-routes.ts';
import {
  addProofOptions,
  addServerOptions,
  type JoinFlags,
  proofOf,
} from '../client/join-flags.ts';
import { type JoinWish, joinSite, refuseMember } from '../client/join-site.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { renewCommand, showJoined } from './join-renew.ts';
import { tokenCommand } from './join-token.ts';
import { findServer } from '../client/join-server.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { trustPaths } from '../paths.ts';

export function joinCommand(kit: CommandKit): Command {
  return new Command('join')
    .description('join a site as an agent or a bot, and manage tokens and members')
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

const headings = ['ROLE', 'NAME', 'TOKEN', 'PROVEN BY', 'GENERATION', 'RENEWED', 'UNTIL', 'WHY'];

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list agents, and bots whose SVID is valid')
    .addOption(kit.outputOption(['json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa join list')
    .action((options: { readonly output: OutputFormat }, command: Command) =>
      kit.withClient(command, async (client) => {
        const { body } = await client.request({ path: trustPaths.members });
        const { members } = body as { readonly members: readonly MemberSummary[] };
        const rendered = kit.renderValue({ members }, options.output);
        if (rendered !== undefined) {
          kit.print(rendered);
          return;
        }
        if (options.output.format === 'name') {
          const names = new Set(members.map(({ role, name }) => `${role}/${name}`));
          for (const name of names) kit.print(printable(name));
          return;
        }
        if (members.length === 0) {
          kit.note(
            'There are no members. To create a join token, see: hansa join token create --help',
          );
          return;
        }
        const rows = members.map((each) =>
          [
            each.role,
            each.name,
            each.token,
            each.provenBy,
            String(each.generation),
            each.renewedAt,
            each.notAfter,
            each.refused === undefined ? '' : `cannot renew: ${each.refused}`,
          ].map((cell) => printable(cell)),
        );
        kit.print(renderColumns([headings, ...rows]));
      }),
    );
}

interface ForgetOptions {
  readonly bot?: boolean;
  readonly output: OutputFormat;
}

function forgetCommand(kit: CommandKit): Command {
  return new Command('forget')
    .description('forget an agent or a bot, so that it can no longer renew')
    .argument('<name>', 'the name of the agent or bot')
    .option('--bot', 'forget a bot: all instances with this name')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Its current SVID stays valid until it expires, at most one hour. The name of an agent becomes free. A
member can join again while its token admits it. To prevent that, delete the token first, or create a
new secret for it.

Examples:
  hansa join forget crane-1
  hansa join forget ci --bot`,
    )
    .action((name: string, { bot = false, output }: ForgetOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const what = bot ? 'bot' : 'agent';
        await kit.confirm(command, `Forget the ${what} ${printable(name)}?`);
        const path = pathTo(trustPaths[what], { name });
        await client.request({ method: 'DELETE', path });
        kit.print(
          kit.renderValue({ role: what, name, forgotten: true }, output) ??
            printable(`Forgot the ${what} ${name}.`),
        );
      }),
    );
}
