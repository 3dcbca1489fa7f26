// `hansa describe`: prints all fields of objects in readable form.

import { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { describeObject } from '../output/describe-text.ts';
import { readObjects } from '../site/read-objects.ts';
import { parseTargets } from '../input/kind-argument.ts';
import { usageError } from '../../core/command/usage-error.ts';

export function describeCommand(cli: Cli): Command {
  return new Command('describe')
    .description('show all fields of objects in readable form')
    .argument('<kind>', 'a kind, or KIND/NAME')
    .argument('[names...]', 'names of objects (default: all objects of the kind)')
    .option('-l, --selector <labels>', 'only objects with these labels')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa describe site site\n  hansa describe roles -l team=ops',
    )
    .action((kind: string, names: string[], options: { selector?: string }, command: Command) =>
      cli.withClient(command, async (client) => {
        const targets = parseTargets(cli.registry, [kind, ...names]);
        if (options.selector !== undefined && targets.some(({ name }) => name !== undefined)) {
          throw usageError('Give either names or a selector, not both.');
        }
        const objects = await readObjects(cli, targets, async (target) =>
          target.name === undefined
            ? (await client.list(target.kind, { labelSelector: options.selector })).items
            : [await client.get(target.kind, target.name)],
        );
        const all = objects.found.flatMap(({ value }) => value);
        if (all.length > 0) cli.print(all.map(describeObject).join('\n\n'));
        objects.refuse();
        if (all.length === 0) cli.note('There are no such objects.');
      }),
    );
}
