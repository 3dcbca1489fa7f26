// `hansa witness`: shows the audit logs of peers that this site witnesses, and handles findings about them.

import { Command } from 'commander';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { peeringPaths } from '../paths.ts';
import { listLogs } from '../client/peers.ts';
import type { WitnessedSummary } from '../routes/witness-routes.ts';
import { cosignedText, logHints, logState } from '../witness/log-rows.ts';

interface Output {
  readonly output: OutputFormat;
}

export function witnessCommand(kit: CommandKit): Command {
  return new Command('witness')
    .description('show the audit logs of peers that this site witnesses')
    .addHelpText('after', '\nExamples:\n  hansa witness list\n  hansa witness show bruges.example')
    .addCommand(listCommand(kit))
    .addCommand(showCommand(kit))
    .addCommand(acknowledgeCommand(kit))
    .addCommand(confirmCommand(kit));
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description(
      'list the logs with the number of verified events, findings, and how many events of this site each peer has cosigned',
    )
    .addOption(kit.outputOption(['json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa witness list')
    .action((options: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const logs = await listLogs(client);
        const rendered = kit.renderValue({ logs }, options.output);
        if (rendered !== undefined) {
          kit.print(rendered);
          return;
        }
        if (options.output.format === 'name') {
          for (const { name } of logs) kit.print(printable(name));
          return;
        }
        if (logs.length === 0) {
          kit.note('This site witnesses no audit log yet. Peers send theirs with each heartbeat.');
          return;
        }
        kit.print(
          renderColumns([
            ['PEER', 'EVENTS', 'STATE', 'COSIGNED'],
            ...logs.map((log) => [
              printable(log.name),
              String(log.events),
              logState(log),
              String(log.cosigned.events),
            ]),
          ]),
        );
        for (const line of logHints(logs)) kit.note(printable(line));
      }),
    );
}

function showCommand(kit: CommandKit): Command {
  return new Command('show')
    .description('show what this site has verified of a log, and the proof of a finding')
    .argument('<peer>', 'the trust domain of the peer')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa witness show bruges.example')
    .action((name: string, options: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const log = await fetchLog(client, name);
        const rendered = kit.renderValue(log, options.output);
        kit.print(rendered ?? linesOf(log).join('\n'));
      }),
    );
}

function acknowledgeCommand(kit: CommandKit): Command {
  return new Command('acknowledge')
    .description('end a finding that you have checked')
    .argument('<peer>', 'the trust domain of the peer')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
If the log contradicts what this site has seen, this site forgets the old log and starts over with the
next checkpoint. The audit log keeps the proof.

Examples:
  hansa witness acknowledge bruges.example`,
    )
    .action((name: string, options: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const { finding } = await fetchLog(client, name);
        if (finding === undefined) {
          throw new HansaError(
            'HANSA_CONFLICT',
            `There is no finding about the audit log of ${printable(name)}. To list the logs: hansa witness list`,
          );
        }
        kit.note(`${finding.reason}: ${printable(finding.message)}`);
        await kit.confirm(command, 'Acknowledge?');
        // The id, so that a graver finding that came in between stays.
        const body = { finding: finding.id };
        await post(
          kit,
          client,
          peeringPaths.witnessAcknowledge,
          name,
          options,
          'acknowledged',
          body,
        );
      }),
    );
}

function confirmCommand(kit: CommandKit): Command {
  return new Command('confirm')
    .description('confirm the size of a log after a restore of this site')
    .argument('<peer>', 'the trust domain of the peer')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
A restored site may have cosigned more than it remembers. Ask the operator of the peer how many events this
site has cosigned: hansa witness list at the peer shows the number in the column COSIGNED. Confirm if it is
not larger than the number of events in hansa witness show at this site.

Examples:
  hansa witness confirm bruges.example`,
    )
    .action((name: string, options: Output, command: Command) =>
      kit.withClient(command, (client) =>
        post(kit, client, peeringPaths.witnessConfirm, name, options, 'confirmed'),
      ),
    );
}

async function post(
  kit: CommandKit,
  client: SiteClient,
  path: typeof peeringPaths.witnessAcknowledge | typeof peeringPaths.witnessConfirm,
  name: string,
  { output }: Output,
  done: string,
  asked?: object,
): Promise<void> {
  const { body } = await client.request({
    method: 'POST',
    path: pathTo(path, { name }),
    ...(asked === undefined ? {} : { body: asked }),
  });
  kit.print(kit.renderValue(body, output) ?? `${printable(name)} ${done}`);
}

async function fetchLog(client: SiteClient, name: string): Promise<WitnessedSummary> {
  const log = (await listLogs(client)).find((one) => one.name === name);
  if (log !== undefined) return log;
  throw new HansaError(
    'HANSA_NOT_FOUND',
    `This site witnesses no audit log of ${printable(name)}. To list those that it witnesses: hansa witness list`,
  );
}

function linesOf(log: WitnessedSummary): string[] {
  const { finding } = log;
  return [
    ...renderColumns([
      ['log', printable(log.origin)],
      ['key', printable(log.key)],
      ['events', String(log.events)],
      ['root', log.rootHash],
      ['state', logState(log)],
      ['cosigned', cosignedText(log)],
      ...(finding === undefined
        ? []
        : [
            ['finding', finding.id],
            ['since', finding.at],
            ['found', printable(finding.message)],
          ]),
    ]).split('\n'),
    ...(finding?.proof ?? []).flatMap((note, i) => [
      '',
      `Proof ${i + 1} of ${finding?.proof.length ?? 0}, a signed note:`,
      ...note
        .trimEnd()
        .split('\n')
        .map((line) => `  ${printable(line)}`),
    ]),
  ];
}
