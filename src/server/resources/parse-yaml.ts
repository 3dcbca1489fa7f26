// Parses YAML bodies. kubectl and client-go send JSON as YAML, which the caller parses as JSON. Real
// YAML comes from people and is small. Its parser is about fifty times slower, so there are limits.

import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  Lexer,
  LineCounter,
  Parser,
  type YAMLMap,
} from 'yaml';
import { HansaError } from '../../core/errors/error.ts';
import { badRequest } from './errors.ts';

/** A larger document would block the event loop for too long. */
export const maxYamlBytes = 64 * 1024;

/** Each may begin a node or be an error, and takes up to 10 µs, so a document takes at most 10 ms. */
export const maxYamlMarks = 1_000;
const marks = /[\n\r,[\]{}"'&*!\\]|[-?:](?=\s)/g;

/** Deeper than any kind nests. The composer recurses, and needs 50 ms to overflow the stack. */
export const maxYamlDepth = 64;

/** Maximum number of values with all aliases expanded. */
const maxYamlValues = 2_000;

/** As many as Go's decoder reports. */
const maxDuplicates = 100;

export interface ParsedYaml {
  /** The same value as canonical JSON. */
  readonly json: string;
  /** `line 3: key already set in map`, for each duplicate key. */
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
      `Request entity too large: limit is ${maxYamlMarks} lines, commas, quotes, escapes and brackets for YAML; send it as JSON`,
    );
  }
  const { stackTraceLimit } = Error;
  // The parser creates an Error for each mistake. Stack traces would take most of the time.
  Error.stackTraceLimit = 0;
  try {
    return readDocument(text);
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw badRequest(`yaml: ${(error as Error).message}`);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
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
  const document = compose(text, lines);
  const fatal = document.errors[0];
  if (fatal !== undefined) throw badLine(lines, fatal.pos[0], fatal.message);
  const duplicates = new Inspection(lines).of(document);
  return {
    // The inspection has limited the expansion of aliases.
    json: JSON.stringify(document.toJS({ maxAliasCount: -1 }) ?? null),
    duplicates,
  };
}

function badLine(lines: LineCounter, offset: number, why: string): HansaError {
  return badRequest(`yaml: line ${lines.linePos(offset).line || 1}: ${why}`);
}

/** The first document of the text, as in Go. Stops at the first mistake that the parser sees, and before deep nesting is composed. */
function compose(text: string, lines: LineCounter): Document.Parsed {
  // Version 1.1, as in the Kubernetes ecosystem: `on` and `y` are booleans.
  const composer = new Composer({
    version: '1.1',
    // The composer would compare each key with all previous ones.
    uniqueKeys: false,
    merge: true,
    logLevel: 'silent',
  });
  for (const token of tokensOf(text, lines)) {
    if (token.type === 'error') throw badLine(lines, token.offset, token.message);
    for (const document of composer.next(token)) return document;
  }
  for (const document of composer.end(true, text.length)) return document;
  throw new Error('the composer returned no document');
}

function* tokensOf(text: string, lines: LineCounter): ReturnType<Parser['parse']> {
  const parser = new Parser((offset) => lines.addNewLine(offset));
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    // The stack has the document first, then the collections, and perhaps a scalar last.
    if (parser.stack.length > maxYamlDepth + 1 && isOpenCollection(parser.stack.at(-1)))
      throw badLine(lines, parser.offset, `exceeded max depth of ${maxYamlDepth}`);
  }
  yield* parser.end();
}

function isOpenCollection(token: CST.Token | undefined): boolean {
  return token !== undefined && 'items' in token;
}

/** One pass over a document before its conversion. Collects duplicate keys and rejects expensive aliases. */
class Inspection {
  readonly #lines: LineCounter;
  readonly #duplicates: string[] = [];
  /** Number of values by anchor. Undefined while inside the anchored node. */
  readonly #anchors = new Map<string, number | undefined>();

  constructor(lines: LineCounter) {
    this.#lines = lines;
  }

  of(document: Document.Parsed): readonly string[] {
    this.#count(document.contents);
    return this.#duplicates;
  }

  /** The number of values of a node with expanded aliases. */
  #count(node: unknown): number {
    if (isPair(node)) return this.#countKey(node.key) + this.#count(node.value);
    if (isAlias(node)) return this.#countAlias(node.source, node.range?.[0] ?? 0);
    const anchor = isScalar(node) || isCollection(node) ? node.anchor : undefined;
    if (anchor !== undefined) this.#anchors.set(anchor, undefined);
    let count = 1;
    if (isMap(node)) this.#reportDuplicates(node);
    if (isCollection(node)) for (const item of node.items) count += this.#count(item);
    if (count > maxYamlValues) {
      throw new HansaError(
        'HANSA_TOO_LARGE',
        `Request entity too large: limit is ${maxYamlValues} values for YAML with its aliases; send it as JSON`,
      );
    }
    if (anchor !== undefined) this.#anchors.set(anchor, count);
    return count;
  }

  /** Rejects collections as keys: JSON has none, and the library takes exponential time for nested ones. */
  #countKey(key: unknown): number {
    if (isCollection(key) || isAlias(key)) {
      throw badLine(this.#lines, key.range?.[0] ?? 0, 'a key must be a scalar');
    }
    return this.#count(key);
  }

  #countAlias(anchor: string, offset: number): number {
    const count = this.#anchors.get(anchor);
    if (count !== undefined) return count;
    const why = this.#anchors.has(anchor)
      ? `anchor '${anchor}' value contains itself`
      : `unknown anchor '${anchor}' referenced`;
    throw badLine(this.#lines, offset, why);
  }

  #reportDuplicates(map: YAMLMap): void {
    for (const offset of repeatedKeys(map)) {
      if (this.#duplicates.length >= maxDuplicates) return;
      this.#duplicates.push(`line ${this.#lines.linePos(offset).line}: key already set in map`);
    }
  }
}

/** Offsets of duplicate keys. Merge keys (`<<`) may repeat. */
function* repeatedKeys(map: YAMLMap): Generator<number> {
  const seen = new Set<unknown>();
  for (const { key } of map.items) {
    if (!isScalar(key) || key.value === '<<') continue;
    if (seen.has(key.value)) yield key.range?.[0] ?? 0;
    seen.add(key.value);
  }
}
