// `hansa join list` and `hansa join forget`: the bots of a site. `hansa agent` manages its agents.

import { Command } from 'commander';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { MemberSummary } from '../join/join-routes.ts';
import { trustPaths } from '../paths.ts';

const headings = ['BOT', 'TOKEN', 'PROVEN BY', 'GENERATION', 'RENEWED', 'UNTIL', 'WHY'];

interface ListOptions {
  readonly all?: boolean;
  readonly output: OutputFormat;
}

export function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list bots whose SVID is valid (for agents: hansa agent list)')
    .option('--all', 'also list bots whose SVID has expired, and which can still renew it')
    .addOption(kit.outputOption(['json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa join list\n  hansa join list --all')
    .action(({ all = false, output }: ListOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const members = await listMembers(client);
        const bots = members.filter(
          ({ role, reattestUntil }) => role === 'bot' && (all || reattestUntil === undefined),
        );
        const rendered = kit.renderValue({ bots }, output);
        if (rendered !== undefined) {
          kit.print(rendered);
          return;
        }
        if (output.format === 'name') {
          for (const name of new Set(bots.map((bot) => bot.name))) kit.print(printable(name));
          return;
        }
        if (bots.length === 0) {
          kit.note(
            'There are no bots. To create a join token, see: hansa join token create --help',
          );
        } else {
          kit.print(renderColumns([headings, ...bots.map((bot) => rowOf(bot))]));
        }
        if (members.some(({ role }) => role === 'agent')) {
          kit.note('For agents, see: hansa agent list');
        }
      }),
    );
}

function rowOf(bot: MemberSummary): string[] {
  const why =
    bot.refused === undefined
      ? bot.reattestUntil && `expired; its key can renew it until ${bot.reattestUntil}`
      : `cannot renew: ${bot.refused}`;
  return [
    bot.name,
    bot.token,
    bot.provenBy,
    String(bot.generation),
    bot.renewedAt,
    bot.notAfter,
    why ?? '',
  ].map((cell) => printable(cell));
}

async function listMembers(client: SiteClient): Promise<readonly MemberSummary[]> {
  const { body } = await client.request({ path: trustPaths.members });
  return (body as { readonly members: readonly MemberSummary[] }).members;
}

export function forgetCommand(kit: CommandKit): Command {
  return new Command('forget')
    .description('forget all instances of a bot (for an agent: hansa agent forget)')
    .argument('<name>', 'the name of the bot')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
No instance can renew any more. Their current SVIDs stay valid until they expire, at most one hour. The
bot can join again while its token admits it. To prevent that, delete the token first, or create a new
secret for it.

Examples:
  hansa join forget ci`,
    )
    .action((name: string, { output }: { readonly output: OutputFormat }, command: Command) =>
      kit.withClient(command, async (client) => {
        const named = (await listMembers(client)).filter((each) => each.name === name);
        if (named.length > 0 && !named.some(({ role }) => role === 'bot')) {
          throw new HansaError(
            'HANSA_NOT_FOUND',
            `No bot ${name} has joined. ${name} is an agent. To forget it: hansa agent forget ${name}`,
          );
        }
        await kit.confirm(command, `Forget the bot ${printable(name)}?`);
        await client.request({ method: 'DELETE', path: pathTo(trustPaths.bot, { name }) });
        kit.print(
          kit.renderValue({ role: 'bot', name, forgotten: true }, output) ??
            printable(`Forgot the bot ${name}.`),
        );
      }),
    );
}
