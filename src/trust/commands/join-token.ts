// `hansa join token`: creates join tokens with a secret, and new secrets for them.

import { Command, Option } from 'commander';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { apiVersion, timestamp } from '../../api/object.ts';
import { printable } from '../../core/command/columns.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { parseLabelFlag } from './label-flag.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { trustPaths } from '../paths.ts';

export function tokenCommand(kit: CommandKit): Command {
  return new Command('token')
    .description('manage join tokens with a secret (create others with hansa apply)')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa join token create machines > secret\n  hansa get jointokens',
    )
    .addCommand(createCommand(kit))
    .addCommand(secretCommand(kit));
}

interface CreateOptions {
  readonly role: readonly ('agent' | 'bot')[];
  readonly botName?: string;
  readonly agentName?: string;
  readonly singleUse?: boolean;
  readonly label?: Readonly<Record<string, string>>;
  readonly ttl: number;
  readonly output: OutputFormat;
}

/** One day: enough time to bring a secret to a machine. */
const defaultTtlMs = 24 * 3_600_000;

function createCommand(kit: CommandKit): Command {
  return new Command('create')
    .description('create a join token, and print its secret once')
    .argument('<name>', 'the name of the token')
    .addOption(
      new Option('--role <role...>', 'the roles that the token admits')
        .choices(['agent', 'bot'])
        .default(['agent'], 'agent'),
    )
    .option('--bot-name <name>', 'the name of the bot, for the role bot')
    .option('--agent-name <name>', 'the only agent that may join')
    .option('--single-use', 'admit one member, and reject all others')
    .addOption(
      new Option(
        '--label <key=value>',
        'a label of the agents that join; can be repeated',
      ).argParser(parseLabelFlag),
    )
    .addOption(
      new Option('--ttl <duration>', 'how long the token is valid')
        .argParser(parseDurationFlag)
        .default(defaultTtlMs, '24h'),
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command prints the secret to standard output. The site stores only a digest of its public key.
A machine that joins as an agent gets WorkloadEntries, so a token for agents needs the right to write them.

Examples:
  hansa join token create machines > secret
  hansa join token create crane-1 --single-use --agent-name crane-1 --label quay=north > secret
  hansa join token create ci --role bot --bot-name ci --ttl 15m`,
    )
    .action((name: string, options: CreateOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const { role: roles, botName, agentName, singleUse, label: labels } = options;
        const expiresAt = timestamp(kit.io.clock.now() + options.ttl);
        await refuseExisting(client, name);
        // An apply, not a create: `hansa apply` then owns the fields of the token and can change them.
        await client.apply(joinTokenKind, name, {
          apiVersion,
          kind: joinTokenKind.kind,
          metadata: { name },
          spec: {
            method: 'secret',
            roles: [...roles],
            expiresAt,
            ...(botName === undefined ? {} : { botName }),
            ...(agentName === undefined ? {} : { agentName }),
            ...(singleUse === undefined ? {} : { singleUse }),
            ...(labels === undefined ? {} : { labels }),
          },
        });
        await makeSecret(kit, command, name, options.output);
      }),
    );
}

async function refuseExisting(client: SiteClient, name: string): Promise<void> {
  try {
    await client.get(joinTokenKind, name);
  } catch (error) {
    if (hasCode(error, 'HANSA_NOT_FOUND')) return;
    throw error;
  }
  throw new HansaError(
    'HANSA_ALREADY_EXISTS',
    `Cannot create the token ${name}: it exists. For a new secret, run: hansa join token secret ${name}`,
  );
}

function secretCommand(kit: CommandKit): Command {
  return new Command('secret')
    .description('create a new secret for a token, and invalidate the previous one')
    .argument('<name>', 'the name of a token with the method secret')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa join token secret machines > secret')
    .action((name: string, options: { readonly output: OutputFormat }, command: Command) =>
      makeSecret(kit, command, name, options.output),
    );
}

async function makeSecret(
  kit: CommandKit,
  command: Command,
  name: string,
  output: OutputFormat,
): Promise<void> {
  await kit.withClient(command, async (client) => {
    const path = pathTo(trustPaths.joinSecret, { name });
    const { body } = await client.request({ method: 'POST', path });
    const made = body as { readonly secret: string; readonly expiresAt: string };
    kit.print(kit.renderValue(made, output) ?? printable(made.secret));
    kit.note(printable(`The secret is valid until ${made.expiresAt}. It is not shown again.`));
  });
}
