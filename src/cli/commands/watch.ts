// `hansa watch`: prints the changes of a kind or an object, one per line.

import { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { parseTargets, qualifiedName } from '../input/kind-argument.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { watchObjects } from '../output/watch-output.ts';
import type { WatchEvent } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';

interface WatchOptions {
  readonly output: OutputFormat;
  readonly selector?: string;
  readonly fieldSelector?: string;
}

export function watchCommand(cli: Cli): Command {
  return new Command('watch')
    .description('print every change of a kind or an object, until interrupted')
    .argument('<kind>', 'a kind, or KIND/NAME')
    .argument('[name]', 'the name of an object')
    .option('-l, --selector <labels>', 'only objects with these labels')
    .option('--field-selector <fields>', 'only objects with these fields')
    .addOption(outputOption(['json', 'yaml', 'name', 'jsonpath']))
    .addHelpText(
      'after',
      `
With -o json, each line is an event: {"type": "ADDED|MODIFIED|DELETED", "object": …}. With -o yaml,
each document is an event.

Examples:
  hansa watch rolebindings
  hansa watch site/site -o json | jq .object.status`,
    )
    .action((kind: string, name: string | undefined, options: WatchOptions, command: Command) => {
      const [target] = parseTargets(cli.registry, name === undefined ? [kind] : [kind, name]);
      if (target === undefined) throw usageError('Name a kind.');
      const selects = options.selector !== undefined || options.fieldSelector !== undefined;
      if (target.name !== undefined && selects) {
        throw usageError('Give either a name or a selector, not both.');
      }
      const selection =
        target.name === undefined
          ? { labelSelector: options.selector, fieldSelector: options.fieldSelector }
          : { fieldSelector: `metadata.name=${target.name}` };
      const line = (event: WatchEvent): string => {
        const named = qualifiedName(target.kind, event.object.metadata.name);
        switch (options.output.format) {
          case 'json':
            return JSON.stringify(event);
          case 'yaml':
            return `---\n${renderValue(event, options.output)}`;
          case 'name':
            return named;
          case 'jsonpath':
            return options.output.template(event.object);
          default:
            return `${event.type.padEnd(8)} ${named}`;
        }
      };
      return cli.withClient(command, (client) =>
        watchObjects(cli, client, target.kind, selection, cli.io.interruption(), (event) =>
          cli.print(line(event)),
        ),
      );
    });
}
