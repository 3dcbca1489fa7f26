// The configuration flags of `hansa server`, `hansa config` and `hansa doctor`, generated from the
// schema. Loads the configuration from flags, variables, the --config file and the data folder.

import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { HansaError } from '../../core/errors/error.ts';
import {
  type ConfigInputs,
  dataDirFrom,
  type LoadedConfig,
  loadConfig,
} from '../../server/config/config.ts';
import { type ConfigFile, maxConfigFileBytes, parseConfigFile } from '../../server/config/file.ts';
import { configTable, flagOf } from '../../server/config/keys.ts';
import type { ConfigKey } from '../../core/config/config-key.ts';
import { readRemembered } from '../../server/config/remembered-settings.ts';
import type { Cli } from '../cli.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import type { Io } from '../../core/plane/command-kit.ts';

function optionOf(name: string, key: ConfigKey): Option {
  const fallback = key.default ?? key.withoutIt;
  return new Option(
    `${flagOf(name)} <${key.placeholder}>`,
    `${key.meaning} (default: ${fallback})`,
  );
}

/** All configuration flags except `--data-dir`, which is a global flag. */
export function addConfigOptions(cli: Cli, command: Command): Command {
  command.addOption(new Option('--config <file>', 'a YAML file with these keys (HANSA_CONFIG)'));
  for (const [name, key] of configTable(cli.planes)) {
    if (name !== 'dataDir') command.addOption(optionOf(name, key));
  }
  return command;
}

/** `dataDir` is the data folder of a context. It overrides all other sources. */
export function loadServerConfig(cli: Cli, command: Command, dataDir?: string): LoadedConfig {
  const inputs = inputsOf(cli, command, dataDir);
  const folder = dataDirFrom(inputs);
  const remembered = folder === undefined ? undefined : readRemembered(folder);
  const loaded = loadConfig({ ...inputs, ...(remembered === undefined ? {} : { remembered }) });
  for (const warning of loaded.warnings) cli.note(`Warning: ${warning}`);
  return loaded;
}

/** The data folder, without a look into it. */
export function dataFolderOf(cli: Cli, command: Command, dataDir?: string): string | undefined {
  return dataDirFrom(inputsOf(cli, command, dataDir));
}

function inputsOf(cli: Cli, command: Command, dataDir: string | undefined): ConfigInputs {
  const given = command.optsWithGlobals<Record<string, unknown>>();
  const flags: { [name: string]: string } = {};
  for (const [name, key] of configTable(cli.planes)) {
    const value = given[optionOf(name, key).attributeName()];
    if (typeof value === 'string') flags[name] = value;
  }
  if (dataDir !== undefined) flags['dataDir'] = dataDir;
  const path = typeof given['config'] === 'string' ? given['config'] : cli.io.env['HANSA_CONFIG'];
  const file = path === undefined || path === '' ? {} : { file: readConfigFile(path, cli.io) };
  return { planes: cli.planes, flags, env: cli.io.env, cwd: cli.io.cwd, ...file };
}

function readConfigFile(given: string, io: Io): ConfigFile {
  const path = resolve(io.cwd, given);
  try {
    // Check the size first: a device or a log file would fill the memory.
    if (statSync(path).size > maxConfigFileBytes) {
      return {
        path,
        values: new Map(),
        problems: [`${path}: is larger than ${maxConfigFileBytes} bytes`],
      };
    }
    return parseConfigFile(path, readFileSync(path, 'utf8'));
  } catch (error) {
    const message = `Cannot read the configuration ${path}: ${fileProblem(error)}.`;
    throw new HansaError('HANSA_CONFIG_INVALID', message);
  }
}
