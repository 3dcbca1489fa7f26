// `hansa join`: joins a site as an agent or a bot. Operators of the site list and forget members with it.

import { createPrivateKey } from 'node:crypto';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { parseCertificatesPem } from '../../core/identity/x509/pem.ts';
import { maxChainLength } from '../../core/identity/x509/svid-validator.ts';
import type { SvidCredential } from '../client/join-client.ts';
import type { MemberSummary } from '../join/join-routes.ts';
import {
  type JoinWish,
  joinSite,
  type Prove,
  refuseMember,
  svidFromSocket,
} from '../client/join-site.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { renewCommand, showJoined } from './join-renew.ts';
import { tokenCommand } from './join-token.ts';
import { findServer, readGiven, type ServerOptions } from '../client/join-server.ts';

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

interface RunOptions extends ServerOptions {
  readonly token?: string;
  readonly role?: string;
  readonly name?: string;
  readonly svid?: string;
  readonly key?: string;
  readonly socket?: string;
  readonly secretFile?: string;
  readonly write?: string;
  readonly output: OutputFormat;
}

function runCommand(kit: CommandKit): Command {
  return new Command('run')
    .description('join a site (same as hansa join without a subcommand)')
    .option('--server <url>', "the URL of the site's federation listener")
    .option('--trust-domain <name>', 'the trust domain of the site')
    .option('--bundle <file>', 'the bundle of the site: SPIFFE or PEM')
    .option('--fingerprint <line>', 'the fingerprint of the bundle, instead of --bundle')
    .option('--token <name>', 'the JoinToken to use')
    .addOption(
      new Option('--role <role>', 'agent or bot (default: agent if --name is set)').choices([
        'agent',
        'bot',
      ]),
    )
    .option('--name <name>', 'the name of the agent; the token sets the name of a bot')
    .option('--svid <file>', 'prove identity with this X.509-SVID and its intermediates, in PEM')
    .option('--key <file>', 'the private key of --svid, in PEM')
    .option(
      '--socket <path>',
      'prove identity with an SVID from this workload socket, instead of --svid',
    )
    .option(
      '--secret-file <file>',
      'prove possession of the secret in this file, instead of --svid',
    )
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
      const prove = await proofOf(kit, options);
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

/** Reads all input before the first call. */
async function proofOf(kit: CommandKit, options: RunOptions): Promise<Prove> {
  const { svid, key, socket, secretFile } = options;
  const given = [svid ?? key, socket, secretFile].filter((each) => each !== undefined);
  if (given.length !== 1 || (svid === undefined) !== (key === undefined)) {
    throw usageError('Set exactly one proof: --svid with --key, --socket, or --secret-file.');
  }
  // Loaded here, so that no other command waits for it.
  const client = await import('../client/join-client.ts');
  if (secretFile !== undefined) {
    const { decodeSecret } = await import('../join/secret.ts');
    const seed = decodeSecret(readGiven(resolve(kit.io.cwd, secretFile), '--secret-file'));
    return (parts, wish) => client.joinBySecret(parts, wish, seed);
  }
  const credential =
    socket === undefined
      ? readSvid(kit, svid ?? '', key ?? '')
      : await svidFromSocket(resolve(kit.io.cwd, socket), kit.io.interruption());
  return (parts, wish) => client.joinBySvid(parts, wish, credential);
}

function readSvid(kit: CommandKit, svid: string, key: string): SvidCredential {
  const chain = parseCertificatesPem(
    readGiven(resolve(kit.io.cwd, svid), '--svid'),
    maxChainLength,
  );
  if (chain.length === 0) throw usageError(`${svid} (--svid) contains no PEM certificate.`);
  const pem = readGiven(resolve(kit.io.cwd, key), '--key');
  try {
    return { chain, key: createPrivateKey(pem) };
  } catch {
    // Without its cause, which may quote the key.
    throw usageError(`${key} (--key) contains no PEM private key.`);
  }
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
