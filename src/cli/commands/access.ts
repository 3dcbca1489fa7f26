// `hansa access`: creates, lists and revokes tokens, and lists who has which role. Roles and
// RoleBindings are resources, for `hansa get` and `hansa apply`.

import { Command, Option } from 'commander';
import type { Subject } from '../../core/access/policy.ts';
import type {
  CreatedToken,
  RevokedToken,
  TokenSummary,
} from '../../core/access/token-operations.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type AccessRow, accessRows } from './access-rows.ts';
import type { Cli } from '../cli.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { outputOption, renderValue } from '../output/output.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { sitePaths } from '../../server/routes/paths.ts';

export function accessCommand(cli: Cli): Command {
  return new Command('access')
    .description('manage tokens, and list who has which role')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa access token create ci --role viewer --ttl 1d\n  hansa access list',
    )
    .addCommand(
      new Command('token')
        .description('manage bearer tokens')
        .addHelpText('after', '\nExamples:\n  hansa access token create ci --role viewer --ttl 1d')
        .addCommand(createTokenCommand(cli)),
    )
    .addCommand(listCommand(cli))
    .addCommand(revokeCommand(cli));
}

function createTokenCommand(cli: Cli): Command {
  interface Options {
    readonly role: string;
    readonly ttl?: number;
    readonly output: OutputFormat;
  }
  return new Command('create')
    .description('create a token and print it; it is not shown again')
    .argument('<name>', 'the name of the token')
    .requiredOption(
      '--role <role>',
      'the role of the token: viewer, editor, approver, admin or a role of your own',
    )
    .addOption(
      new Option('--ttl <duration>', 'lifetime (default 720h, at most one year)').argParser(
        parseDurationFlag,
      ),
    )
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command prints only the token to standard output. The site stores its digest, so a lost token
cannot be recovered. Create a new one instead.

Examples:
  (umask 077; hansa access token create ci --role viewer --ttl 1d > token)`,
    )
    .action((name: string, options: Options, command: Command) =>
      cli.withClient(command, async (client) => {
        const answer = await client.request({
          method: 'POST',
          path: sitePaths.tokens,
          body: {
            name,
            role: options.role,
            ...(options.ttl === undefined ? {} : { ttlSeconds: Math.floor(options.ttl / 1000) }),
          },
        });
        const made = answer.body as CreatedToken;
        cli.print(renderValue(made, options.output) ?? printable(made.token));
        cli.note(
          printable(
            `Token ${made.name} has the role ${made.role} until ${made.expiresAt}. It is not shown again. To revoke it: hansa access revoke ${made.name}`,
          ),
        );
      }),
    );
}

function listCommand(cli: Cli): Command {
  return new Command('list')
    .description('list who has which role, tokens included')
    .addOption(outputOption(['json', 'yaml', 'name']))
    .addHelpText(
      'after',
      `
With -o name, the command prints only the names of tokens, which hansa access revoke takes.

Examples:
  hansa access list
  hansa access list -o json`,
    )
    .action((options: { readonly output: OutputFormat }, command: Command) =>
      cli.withClient(command, async (client) => {
        const [tokens, grants] = await Promise.all([listTokens(client), listGrants(cli, client)]);
        const rendered = renderValue({ grants, tokens }, options.output);
        if (rendered !== undefined) {
          cli.print(rendered);
          return;
        }
        if (options.output.format === 'name') {
          for (const { name } of tokens) cli.print(printable(name));
          return;
        }
        const rows = accessRows(grants, tokens, cli.io.clock.now());
        cli.print(renderColumns([accessHeadings, ...rows.map(accessCells)]));
      }),
    );
}

const accessHeadings = ['WHO', 'ROLE', 'BINDING', 'EXPIRES', 'LAST USED'];

function accessCells(row: AccessRow): readonly string[] {
  return [row.who, row.role, row.binding, row.expires, row.lastUsed].map((cell) => printable(cell));
}

export interface AccessGrant {
  readonly subject: Subject;
  readonly role: string;
  readonly binding: string;
}

export async function listTokens(client: SiteClient): Promise<readonly TokenSummary[]> {
  const { body } = await client.request({ path: sitePaths.tokens });
  return (body as { readonly tokens: readonly TokenSummary[] }).tokens;
}

export async function listGrants(cli: Cli, client: SiteClient): Promise<readonly AccessGrant[]> {
  const kind = cli.registry.kinds.find((known) => known.kind === 'RoleBinding');
  if (kind === undefined) throw new HansaError('HANSA_INTERNAL', 'There is no kind RoleBinding.');
  const { items } = await client.list(kind);
  return items.flatMap(({ metadata, spec }) => {
    const { role, subjects } = spec as {
      readonly role: string;
      readonly subjects: readonly Subject[];
    };
    return subjects.map((subject) => ({ subject, role, binding: metadata.name }));
  });
}

function revokeCommand(cli: Cli): Command {
  return new Command('revoke')
    .description('revoke a token and all certificates that were issued for it, at once')
    .argument('<name>', 'the name of the token')
    .addOption(outputOption(['json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa access revoke ci --yes')
    .action((name: string, options: { readonly output: OutputFormat }, command: Command) =>
      cli.withClient(command, async (client) => {
        await cli.confirm(
          command,
          `Revoke the token ${name}? The site then rejects it and its certificates at once.`,
        );
        const answer = await client.request({
          method: 'DELETE',
          path: pathTo(sitePaths.token, { name }),
        });
        const revoked = answer.body as RevokedToken;
        cli.print(
          renderValue(revoked, options.output) ??
            printable(
              options.output.format === 'name' ? revoked.name : `Token ${revoked.name} revoked.`,
            ),
        );
        if (revoked.remainingBindings.length > 0)
          cli.note(
            printable(
              `These RoleBindings still name the token, and would apply to a new token of that name: ${revoked.remainingBindings.join(', ')}`,
            ),
          );
      }),
    );
}
