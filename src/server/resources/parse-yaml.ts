// Bodies in YAML. kubectl and client-go send JSON under that name, which is read as what it is. Real
// YAML is written by people and small; its parser is some fifty times slower, so there is a limit.

import { isScalar, LineCounter, parseDocument, visit, type YAMLMap } from 'yaml';
import { HansaError } from '../../core/errors/error.ts';
import { badRequest } from './errors.ts';

/** More would hold up everyone else for too long. */
export const maxYamlBytes = 64 * 1024;

/** Each may begin a node, and costs the parser some 5 µs; each that is wrong costs it more the more there are. */
export const maxYamlMarks = 2_000;
const marks = /[\n\r,[\]{}"'&*!]|[-?:](?=\s)/g;

/** Aliases are expanded at most this often: a small document must not become a huge one. */
const maxAliases = 100;

/** Go's decoder reports so many. */
const maxDuplicates = 100;

export interface ParsedYaml {
  /** The same value as JSON, where it has no two spellings. */
  readonly json: string;
  /** `line 3: key already set in map`, for each key that stands twice. */
  readonly duplicates: readonly string[];
}

/** Throws HANSA_BAD_REQUEST that names the first error, or HANSA_TOO_LARGE. */
export function parseYaml(text: string): ParsedYaml {
  if (text.length > maxYamlBytes) {
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Request entity too large: limit is ${maxYamlBytes} for YAML; send it as JSON`,
    );
  }
  if (hasMoreMarks(text, maxYamlMarks)) {
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Request entity too large: limit is ${maxYamlMarks} lines, commas, quotes and brackets for YAML; send it as JSON`,
    );
  }
  try {
    return readDocument(text);
  } catch (error) {
    if (error instanceof HansaError) throw error;
    // Aliases without end, or nesting that the parser's recursion cannot follow.
    throw badRequest(`yaml: ${(error as Error).message}`);
  }
}

function hasMoreMarks(text: string, limit: number): boolean {
  let count = 0;
  marks.lastIndex = 0;
  while (marks.test(text)) {
    count += 1;
    if (count > limit) return true;
  }
  return false;
}

function readDocument(text: string): ParsedYaml {
  const lines = new LineCounter();
  // Version 1.1, as everything around Kubernetes reads it: there `on` and `y` are booleans.
  const document = parseDocument(text, {
    version: '1.1',
    // The parser would compare each key with all before it.
    uniqueKeys: false,
    merge: true,
    logLevel: 'silent',
    lineCounter: lines,
  });
  const fatal = document.errors[0];
  if (fatal !== undefined) {
    const line = fatal.linePos?.[0].line ?? 1;
    throw badRequest(`yaml: line ${line}: ${fatal.message.split(/ at line \d+|\n/)[0]}`);
  }
  const duplicates: string[] = [];
  visit(document, {
    Map: (_key, map) => {
      for (const offset of repeatedKeys(map)) {
        if (duplicates.length >= maxDuplicates) return visit.BREAK;
        duplicates.push(`line ${lines.linePos(offset).line}: key already set in map`);
      }
      return undefined;
    },
  });
  return {
    json: JSON.stringify(document.toJS({ maxAliasCount: maxAliases }) ?? null),
    duplicates,
  };
}

/** Where the keys stand that the map has already. Merge keys (`<<`) may stand more than once. */
function* repeatedKeys(map: YAMLMap): Generator<number> {
  const seen = new Set<unknown>();
  for (const { key } of map.items) {
    if (!isScalar(key) || key.value === '<<') continue;
    if (seen.has(key.value)) yield key.range?.[0] ?? 0;
    seen.add(key.value);
  }
}
