// `hansa version`: prints the versions of the program, the API and Node.

import { Command } from 'commander';
import { apiVersion } from '../../api/object.ts';
import type { Cli } from '../cli.ts';
import { outputOption, renderValue } from '../output/output.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';

export function versionCommand(cli: Cli): Command {
  return new Command('version')
    .description('print the version of this program')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa version\n  hansa version -o json')
    .action((options: { output: OutputFormat }) => {
      const value = { hansa: cli.version, api: apiVersion, node: process.version };
      const text = `hansa ${value.hansa} (api ${value.api}, node ${value.node})`;
      cli.print(renderValue(value, options.output) ?? text);
    });
}
