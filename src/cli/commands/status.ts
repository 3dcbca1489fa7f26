// `hansa status`: a summary of the site. Each plane adds a part.

import { Command } from 'commander';
import { humanDuration } from '../../api/values/duration.ts';
import { siteKind } from '../../api/kinds/site.ts';
import type { Condition } from '../../api/object.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import type { StatusPart } from '../../core/plane/command-line.ts';
import type { Cli } from '../cli.ts';
import { approvalStatus } from './approval-status.ts';
import { outputOption, renderValue } from '../output/output.ts';

interface SiteStatus {
  readonly trustDomain?: string;
  readonly version?: string;
  readonly startedAt?: string;
  readonly advertiseURL?: string;
  readonly listeners?: readonly { readonly name: string; readonly address: string }[];
  readonly conditions?: readonly Condition[];
}

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('show a summary of the site: listeners, trusted domains and peers')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa status\n  hansa status -o json')
    .action((options: { readonly output: OutputFormat }, command: Command) =>
      cli.withClient(command, async (client) => {
        const nowMs = cli.io.clock.now();
        const [site, parts] = await Promise.all([
          client.get(siteKind, siteKind.singleton as string),
          Promise.all([
            ...cli.planes.flatMap(({ status: look }) => look?.(client, nowMs) ?? []),
            approvalStatus(client),
          ]),
        ]);
        const status = (site.status ?? {}) as SiteStatus;
        const fields = parts.flatMap((part) => Object.entries(part.fields));
        const found = { site: status, ...Object.fromEntries(fields) };
        cli.print(renderValue(found, options.output) ?? statusText(status, parts, nowMs));
      }),
    );
}

export function statusText(
  status: SiteStatus,
  parts: readonly StatusPart[],
  nowMs: number,
): string {
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  const since =
    status.startedAt === undefined
      ? ''
      : `, up ${humanDuration(nowMs - Date.parse(status.startedAt))}`;
  const health =
    ready?.status === 'True' ? 'ready' : `not ready: ${ready?.message ?? 'no condition yet'}`;
  const head = [
    [status.trustDomain ?? 'unknown', `${health}${since}, version ${status.version ?? 'unknown'}`],
    ['advertised', status.advertiseURL ?? ''],
    ...parts.flatMap(({ identity = [] }) => identity),
    ...(status.listeners ?? []).map(({ name, address }) => [name, address]),
    ...parts.flatMap(({ rows = [] }) => rows),
  ];
  return [
    renderColumns(clean(head)),
    ...parts.flatMap(({ table, lines = [] }) => [
      ...(table === undefined ? [] : ['', renderColumns(clean(table))]),
      ...lines.map((line) => printable(line)),
    ]),
  ].join('\n');
}

function clean(rows: readonly (readonly string[])[]): string[][] {
  return rows.map((row) => row.map((cell) => printable(cell)));
}
