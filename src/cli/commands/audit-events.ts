// `hansa audit list` and `hansa audit show`: the events of a site.

import { Argument, Command, InvalidArgumentError } from 'commander';
import type { AuditEvent } from '../../core/audit/event.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Cli } from '../cli.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { sitePaths } from '../../server/routes/paths.ts';

interface ListOptions {
  readonly user?: string;
  readonly verb?: string;
  readonly kind?: string;
  readonly name?: string;
  readonly outcome?: string;
  readonly since?: string;
  readonly until?: string;
  readonly peer?: string;
  readonly watch?: true;
  readonly limit: number;
  readonly output: OutputFormat;
}

export function auditListCommand(cli: Cli): Command {
  return new Command('list')
    .description('list events, newest first')
    .option('--user <name>', 'only events of this user')
    .option('--verb <verb>', 'only events with this verb: create, update, patch, delete, …')
    .option('--kind <kind>', 'only events of objects of this kind')
    .option('--name <name>', 'only events of objects of this name')
    .option('--peer <trust-domain>', 'only events that concern this peer')
    .option('--outcome <outcome>', 'only events with this outcome: allow, deny or error')
    .option('--since <time>', 'only events since this time: RFC 3339, or a duration ago such as 2h')
    .option(
      '--until <time>',
      'only events before this time: RFC 3339, or a duration ago such as 10m',
    )
    .option('--limit <count>', 'the maximum number of events', parseCount, 50)
    .option('-w, --watch', 'then print new events until interrupted')
    .addOption(outputOption(['json', 'yaml', 'wide', 'jsonpath']))
    .addHelpText(
      'after',
      `
Examples:
  hansa audit list --outcome deny --since 1h
  hansa audit list --peer bruges.example -w
  hansa audit list --kind Role --name viewer -o json`,
    )
    .action((options: ListOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        const { events, last } = await fetchEvents(cli, client, options);
        const rendered = renderValue({ events }, options.output);
        if (rendered !== undefined) cli.print(rendered);
        else if (events.length === 0) cli.note('There are no such events.');
        else cli.print(renderEvents(events, options.output.format === 'wide'));
        if (options.watch === true) await follow(cli, client, options, last);
      }),
    );
}

const followEveryMs = 1000;

/** Prints new events, oldest first. */
async function follow(
  cli: Cli,
  client: SiteClient,
  options: ListOptions,
  last: number,
): Promise<void> {
  const signal = cli.io.interruption();
  let after = last;
  while (!signal.aborted) {
    await sleepUnless(cli, signal);
    if (signal.aborted) return;
    const found = await fetchEvents(cli, client, { ...options, limit: Infinity }, after);
    after = found.last;
    if (found.events.length === 0) continue;
    const ordered = found.events.toReversed();
    const rendered = renderValue({ events: ordered }, options.output);
    const table = renderEvents(ordered, options.output.format === 'wide');
    cli.print(rendered ?? table.slice(table.indexOf('\n') + 1));
  }
}

function sleepUnless(cli: Cli, signal: AbortSignal): Promise<void> {
  return new Promise((resolve_) => {
    const timer = cli.io.clock.timer(followEveryMs, () => resolve_());
    signal.addEventListener(
      'abort',
      () => {
        timer.cancel();
        resolve_();
      },
      { once: true },
    );
  });
}

/** Accepts plural, singular and short names. Other text stays: the log also has Token, which is no kind. */
function kindMeant(cli: Cli, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const word = text.toLowerCase();
  const known = cli.registry.kinds.find((kind) =>
    [kind.plural, kind.singular, ...kind.shortNames].includes(word),
  );
  return known?.kind ?? text;
}

/** `last` is the index of the newest event that it searched, so that a follower does not search it again. */
async function fetchEvents(
  cli: Cli,
  client: SiteClient,
  options: ListOptions,
  above?: number,
): Promise<{ readonly events: readonly AuditEvent[]; readonly last: number }> {
  const { user, verb, name, outcome, peer } = options;
  const after = above?.toString();
  const kind = kindMeant(cli, options.kind);
  const since = timeOf(options.since, cli.io.clock.now());
  const until = timeOf(options.until, cli.io.clock.now());
  const events: AuditEvent[] = [];
  let before: number | undefined;
  let last: number | undefined;
  do {
    const limit = String(Math.min(1000, options.limit - events.length));
    const page = (
      await client.request({
        path: sitePaths.auditEvents,
        query: {
          user,
          verb,
          kind,
          name,
          peer,
          outcome,
          since,
          until,
          limit,
          after,
          before: before?.toString(),
        },
      })
    ).body as { events: AuditEvent[]; before?: number; size: number };
    events.push(...page.events);
    // The first page has the newest events.
    last ??= page.size - 1;
    before = page.before;
  } while (before !== undefined && events.length < options.limit);
  return { events, last };
}

/** Returns a time unchanged, and turns a duration into the time that long ago. */
function timeOf(text: string | undefined, nowMs: number): string | undefined {
  if (text === undefined || /^\d{4}-/.test(text)) return text;
  try {
    return new Date(nowMs - parseDurationFlag(text)).toISOString();
  } catch {
    throw usageError(
      `${JSON.stringify(text)} is neither a time such as 2026-01-31T08:00:00Z nor a duration such as 2h.`,
    );
  }
}

function renderEvents(events: readonly AuditEvent[], wide: boolean): string {
  const head = ['INDEX', 'TIME', 'USER', 'VERB', 'OBJECT', 'OUTCOME'];
  const rows = events.map((event) => {
    const object = [event.kind, event.name].filter((part) => part !== undefined).join('/');
    const times = event.count === undefined ? '' : ` ×${event.count}`;
    const cells = [
      String(event.index),
      event.time.replace(/\.\d+Z$/, 'Z'),
      event.actor.user,
      event.verb,
      event.subresource === undefined ? object : `${object}/${event.subresource}`,
      `${event.outcome}${times}`,
    ];
    const claimed = event.claim === undefined ? '' : `claims ${event.claim.user}: `;
    const about = event.tokenHash === undefined ? '' : ` (token ${event.tokenHash})`;
    const detail = event.reason ?? event.changed?.join(', ') ?? '';
    const more = [event.actor.via, `${claimed}${detail}${about}`];
    return (wide ? [...cells, ...more] : cells).map((cell) => printable(cell));
  });
  return renderColumns([wide ? [...head, 'VIA', 'DETAIL'] : head, ...rows]);
}

export function indexArgument(): Argument {
  return new Argument('<index>', 'the index of the event, starting at 0').argParser(parseCount);
}

function parseCount(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('Expected a whole number.');
  return Number(text);
}

export function auditShowCommand(cli: Cli): Command {
  return new Command('show')
    .description('show one event with all its fields')
    .addArgument(indexArgument())
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa audit show 42 -o json')
    .action((index: number, options: { output: OutputFormat }, command: Command) =>
      cli.withClient(command, async (client) => {
        const query = { before: String(index + 1), limit: '1' };
        const { body } = await client.request({ path: sitePaths.auditEvents, query });
        const [event] = (body as { events: AuditEvent[] }).events;
        if (event?.index !== index) {
          throw new HansaError('HANSA_NOT_FOUND', `There is no event ${index} in the log.`);
        }
        const format = options.output.format === 'json' ? 'json' : 'yaml';
        cli.print(renderValue(event, { format }) ?? '');
      }),
    );
}
