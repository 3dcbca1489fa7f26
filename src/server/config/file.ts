// Reads a YAML configuration file into a flat map of dotted keys to scalars with line numbers. Does
// not know the keys.

import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';

export interface FileValue {
  readonly text: string;
  readonly line: number;
}

export interface ConfigFile {
  readonly path: string;
  readonly values: ReadonlyMap<string, FileValue>;
  /** Syntax problems of the file, as `path:line: …`. */
  readonly problems: readonly string[];
}

/** A configuration has a few dozen lines. A larger file is there by mistake. */
export const maxConfigFileBytes = 256 * 1024;

export function parseConfigFile(path: string, text: string): ConfigFile {
  const values = new Map<string, FileValue>();
  const problems: string[] = [];
  if (Buffer.byteLength(text) > maxConfigFileBytes) {
    problems.push(`${path}: is larger than ${maxConfigFileBytes} bytes`);
    return { path, values, problems };
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, version: '1.2' });
  const lineAt = (offset: number | undefined): number => lines.linePos(offset ?? 0).line;
  for (const error of document.errors) {
    problems.push(`${path}:${lineAt(error.pos[0])}: ${error.message}`);
  }
  if (problems.length > 0) return { path, values, problems };

  const walk = (node: unknown, prefix: string): void => {
    if (!isMap(node)) {
      const at = (node as { range?: [number] } | null)?.range?.[0];
      const what = prefix === '' ? 'the file' : prefix.slice(0, -1);
      problems.push(`${path}:${lineAt(at)}: ${what} must be a map of keys to values`);
      return;
    }
    for (const pair of node.items) {
      const name = isScalar(pair.key) ? String(pair.key.value) : '?';
      const offset = isScalar(pair.key) ? pair.key.range?.[0] : undefined;
      const key = `${prefix}${name}`;
      const { value } = pair;
      if (isMap(value)) {
        walk(value, `${key}.`);
      } else if (isScalar(value) && value.value !== null) {
        // The source text, so that parsers see 0x10 or 1_000 as written.
        const plain = typeof value.value === 'string' ? value.value : (value.source ?? '');
        values.set(key, { text: plain, line: lineAt(offset) });
      } else if (value === null || isScalar(value)) {
        problems.push(`${path}:${lineAt(offset)}: ${key} has no value; leave the key out instead`);
      } else {
        problems.push(`${path}:${lineAt(offset)}: ${key} must be a single value, not a list`);
      }
    }
  };
  // An empty file, or one of comments only, sets nothing.
  if (document.contents !== null) walk(document.contents, '');
  return { path, values, problems };
}
