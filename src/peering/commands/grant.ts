// `hansa grant`: lists, creates and deletes FederationGrants. `hansa apply` accepts manifests with
// all fields.

import { Command } from 'commander';
import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { createCommand } from './grant-create.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

export function grantCommand(kit: CommandKit): Command {
  return new Command('grant')
    .description('manage what workloads of peers may use at this site')
    .addHelpText(
      'after',
      `
Examples:
  hansa grant list --peer bruges.example
  hansa grant create --help
  hansa grant check --from spiffe://bruges.example/web --offer db --method GET`,
    )
    .addCommand(listCommand(kit))
    .addCommand(createCommand(kit))
    .addCommand(deleteCommand(kit));
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list grants')
    .option('--peer <trust-domain>', 'only grants to this peer')
    .addOption(kit.outputOption(['json', 'yaml', 'wide', 'name']))
    .addHelpText(
      'after',
      '\nExamples:\n  hansa grant list\n  hansa grant list --peer bruges.example',
    )
    .action(
      (options: { readonly peer?: string; readonly output: OutputFormat }, command: Command) =>
        kit.withClient(command, async (client) => {
          const selection = {
            fieldSelector: options.peer === undefined ? undefined : `spec.peer=${options.peer}`,
          };
          if (options.output.format !== 'table' && options.output.format !== 'wide') {
            const list = await client.list(federationGrantKind, selection);
            const rendered = kit.renderValue(list, options.output);
            if (rendered !== undefined) kit.print(rendered);
            else for (const { metadata } of list.items) kit.print(printable(metadata.name));
            return;
          }
          const table = await client.table(federationGrantKind, undefined, selection);
          if (table.rows.length === 0) {
            const whom = options.peer === undefined ? 'any peer' : printable(options.peer);
            kit.note(`There are no grants to ${whom}. To create one: hansa grant create --help`);
            return;
          }
          kit.printTable(table, options.output.format === 'wide');
        }),
    );
}

function deleteCommand(kit: CommandKit): Command {
  return new Command('delete')
    .description('delete a grant, effective immediately')
    .argument('<name>', 'the name of the grant')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa grant delete bruges-db')
    .action((name: string, { output }: { readonly output: OutputFormat }, command: Command) =>
      kit.withClient(command, async (client) => {
        await client.delete(federationGrantKind, name);
        kit.print(kit.renderValue({ name, deleted: true }, output) ?? `${printable(name)} deleted`);
      }),
    );
}
