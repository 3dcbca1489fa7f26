// The remembered settings: `config.yaml` in the data folder. `hansa server` writes the flags of a
// successful start into it, so that the next start needs only --data-dir. Comments and other keys that
// operators add are kept.

import { join } from 'node:path';
import { type Document, isMap, parseDocument } from 'yaml';
import type { Setting } from './config.ts';
import { type ConfigFile, maxConfigFileBytes, parseConfigFile } from './file.ts';
import { readDataFile, replaceFile } from '../../core/plane/data-files.ts';
import { refuseOpenFolder } from '../../core/plane/data-folders.ts';

const heading = ` Settings that hansa server remembers, so that the next start needs no flags for them.
 A flag, a HANSA_* variable or a --config file overrides a line here.
 Remove a line to return to the default.`;

export interface SettingChange {
  readonly key: string;
  /** Undefined if the setting was not remembered before. */
  readonly before: string | undefined;
  readonly value: string;
}

export function rememberedFile(dataDir: string): string {
  return join(dataDir, 'config.yaml');
}

/** Undefined if there is no file. Throws HANSA_CONFIG_INVALID if it cannot be read, or if others can write it. */
export function readRemembered(dataDir: string): ConfigFile | undefined {
  const path = rememberedFile(dataDir);
  const text = readDataFile(path, maxConfigFileBytes)?.toString('utf8');
  // The command itself reports a folder that is missing or is a file.
  if (text === undefined) return undefined;
  refuseOpenFolder(dataDir);
  const file = parseConfigFile(path, text);
  const ownFolder = file.values.get('dataDir');
  if (ownFolder === undefined) return file;
  const problem = `${path}:${ownFolder.line}: dataDir cannot be set in the data folder itself; remove the line`;
  return { ...file, problems: [...file.problems, problem] };
}

/** Writes the settings that came from flags into the file, if they changed. */
export function rememberSettings(
  dataDir: string,
  settings: readonly Setting[],
): readonly SettingChange[] {
  const path = rememberedFile(dataDir);
  const text = String(readDataFile(path, maxConfigFileBytes) ?? '');
  const { values } = parseConfigFile(path, text);
  const changes = settings.flatMap(({ key, declared, value, source }): SettingChange[] => {
    if (source.from !== 'flag' || value === undefined || declared.oneRun) return [];
    const before = values.get(key)?.text;
    return before === value ? [] : [{ key, before, value }];
  });
  const keys = settings.map(({ key }) => key);
  if (changes.length > 0) replaceFile(path, withChanges(text, changes, keys), 0o644);
  return changes;
}

function withChanges(
  text: string,
  changes: readonly SettingChange[],
  keys: readonly string[],
): string {
  const document: Document = parseDocument(text, { version: '1.2' });
  if (!isMap(document.contents)) {
    document.contents = document.createNode({});
    document.commentBefore = heading;
  }
  for (const { key, value } of changes) {
    // Writes numbers without quotes.
    document.setIn(pathOf(key, keys), /^\d+$/.test(value) ? Number(value) : value);
  }
  return document.toString({ lineWidth: 0 });
}

/** A key below another key, such as `federation.trustedProxies`, cannot be in a map of that name. */
function pathOf(key: string, keys: readonly string[]): readonly string[] {
  return keys.some((other) => key.startsWith(`${other}.`)) ? [key] : key.split('.');
}
