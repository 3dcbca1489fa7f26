// `hansa config`: checks a configuration, and shows each value and where it comes from.

import { Command } from 'commander';
import { stringify } from 'yaml';
import { type LoadedConfig, sourceText } from '../../server/config/config.ts';
import { flagOf, variableOf } from '../../server/config/keys.ts';
import type { Cli } from '../cli.ts';
import { wrap } from './explain.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { addConfigOptions, loadServerConfig } from './server-config.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';

export function configCommand(cli: Cli): Command {
  const check = addConfigOptions(cli, new Command('check'))
    .description('check a configuration without starting the site')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa config check --config site.yaml')
    .action((options: { output: OutputFormat }, command: Command) => {
      const { settings } = loadServerConfig(cli, command);
      const set = settings.filter(({ source }) => source.from !== 'default').length;
      const rendered = renderValue(
        { sound: true, set, defaults: settings.length - set },
        options.output,
      );
      cli.print(
        rendered ??
          `The configuration is valid: ${set} ${set === 1 ? 'value' : 'values'} set, ${settings.length - set} at their defaults.`,
      );
    });
  const show = addConfigOptions(cli, new Command('show'))
    .description('show every value, where it comes from and what it means')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With -o yaml, the output is a configuration file.

Examples:
  hansa config show --config site.yaml
  HANSA_API=127.0.0.1:9443 hansa config show -o yaml`,
    )
    .action((options: { output: OutputFormat }, command: Command) => {
      cli.print(renderConfig(loadServerConfig(cli, command), options.output));
    });
  return new Command('config')
    .description('check and explain the configuration of a site')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa config check --config site.yaml\n  hansa config show',
    )
    .addCommand(check)
    .addCommand(show);
}

export function renderConfig({ settings }: LoadedConfig, output: OutputFormat): string {
  if (output.format === 'json') {
    const rows = settings.map(({ key, declared, value, source }) => {
      return {
        key,
        value: value ?? null,
        source: sourceText(source),
        default: declared.default ?? null,
        flag: flagOf(key),
        variable: variableOf(key),
        meaning: declared.meaning,
      };
    });
    return JSON.stringify(rows, null, 2);
  }
  if (output.format === 'yaml') return renderYaml(settings);
  return settings
    .map(({ key, declared, value, source }) => {
      const shown = value ?? `(not set: ${declared.withoutIt})`;
      const fallback =
        source.from === 'default' || declared.default === undefined
          ? ''
          : `; default ${declared.default}`;
      return [
        `${key}: ${shown}`,
        `    from ${sourceText(source)}${fallback}; set by ${flagOf(key)} or ${variableOf(key)}`,
        ...wrap(declared.meaning, 4, 100),
      ].join('\n');
    })
    .join('\n');
}

function renderYaml(settings: LoadedConfig['settings']): string {
  const file: Record<string, unknown> = {};
  for (const { key, value } of settings) {
    if (value === undefined) continue;
    const [outer = key, inner] = key.split('.');
    // Numbers without quotes, as users write them.
    const scalar = /^\d+$/.test(value) ? Number(value) : value;
    if (inner === undefined) file[outer] = scalar;
    else file[outer] = { ...(file[outer] as Record<string, unknown>), [inner]: scalar };
  }
  return stringify(file).trimEnd();
}
