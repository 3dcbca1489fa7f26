// Checks that JSON.parse lacks: the number of values, the depth of nesting (for code that recurses),
// and duplicate fields. Each check is one pass over the text, O(length).

/** Deeper than any kind nests, shallow enough for recursive walks. */
export const MAX_DEPTH = 512;
/** Roles of 256 rules with thirty words each have fewer. Parsing, pruning, validating and tracking this many takes 10 ms. */
export const MAX_VALUES = 10_000;
/** Most duplicates to report, as in Go's decoder. */
const MAX_DUPLICATES = 100;
/** Longest path to report. */
const MAX_PATHS = 1000;
const MAX_PATH_LENGTH = 1024;

/** The bracket that went too deep, or that there are too many values. */
export type JsonExcess = '{' | '[' | 'values';

interface Frame {
  /** The keys seen so far, and whether each was reported as a duplicate. Undefined for an array. */
  readonly keys: Map<string, boolean> | undefined;
  key: string;
  index: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Checks the limits. Call it before JSON.parse, which would block the process on a million small
 * values. `text` need not be JSON.
 */
export function jsonExcess(
  text: Uint8Array,
  maxValues = MAX_VALUES,
  maxDepth = MAX_DEPTH,
): JsonExcess | undefined {
  const found = countValues(text, maxValues, maxDepth);
  return typeof found === 'number' ? undefined : found;
}

/** Objects, arrays, and the fields and items after a comma. */
function countValues(text: Uint8Array, maxValues: number, maxDepth: number): number | JsonExcess {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text[at] as number;
    switch (code) {
      case QUOTE:
        at = closingQuote(text, at + 1);
        break;
      case 0x7b: // {
      case 0x5b: // [
        depth += 1;
        values += 1;
        if (depth > maxDepth) return code === 0x7b ? '{' : '[';
        if (values > maxValues) return 'values';
        break;
      case 0x7d: // }
      case 0x5d: // ]
        depth -= 1;
        break;
      case 0x2c: // ,
        values += 1;
        if (values > maxValues) return 'values';
        break;
      default:
    }
  }
  return values;
}

/** As many steps as a call of indexOf costs. */
const STEPS = 32;

/**
 * The end of a string whose text begins at `from`, or the end of an unfinished text. Jumps over long runs without a
 * quote: an object with bundles or certificates is mostly these.
 */
export function closingQuote(text: Uint8Array, from: number): number {
  let at = from;
  for (;;) {
    for (const near = at + STEPS; at < near; at += 1) {
      const code = text[at];
      if (code === QUOTE || code === undefined) return Math.min(at, text.length);
      if (code === BACKSLASH) at += 1;
    }
    const quote = text.indexOf(QUOTE, at);
    if (quote === -1) return text.length;
    let first = quote;
    while (first > at && text[first - 1] === BACKSLASH) first -= 1;
    if ((quote - first) % 2 === 0) return quote;
    at = quote + 1;
  }
}

/** Whether parsed JSON nests deeper than `jsonExcess` allows. For a short text, this costs less than to check it. */
export function nestsTooDeeply(value: unknown, above = 0): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (above === MAX_DEPTH) return true;
  if (Array.isArray(value)) return value.some((item) => nestsTooDeeply(item, above + 1));
  for (const key in value) {
    if (nestsTooDeeply((value as Record<string, unknown>)[key], above + 1)) return true;
  }
  return false;
}

/** JSON that is too deep or has too many values. */
export class JsonExcessError extends SyntaxError {}

/** JSON.parse for untrusted input. Also throws a JsonExcessError, which is a SyntaxError too. */
export function parseBoundedJson(text: Uint8Array, maxValues = MAX_VALUES): unknown {
  const excess = jsonExcess(text, maxValues);
  if (excess !== undefined) {
    throw new JsonExcessError(
      excess === 'values'
        ? `more than ${maxValues} fields and items`
        : `nested deeper than ${MAX_DEPTH} levels`,
    );
  }
  return JSON.parse(Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString('utf8'));
}

/**
 * Paths of duplicate fields such as `spec.rules[0].verbs`, in order of appearance, each once, the
 * first hundred. Long ones end in `…`. `text` must be valid JSON: call this after JSON.parse.
 */
export function duplicateFields(text: Buffer): readonly string[] {
  const stack: Frame[] = [];
  const duplicates = new Set<string>();
  let paths = 0;
  let expectKey = false;
  for (let at = 0; at < text.length; at += 1) {
    switch (text[at]) {
      case QUOTE: {
        const end = endOfString(text, at);
        if (expectKey) {
          const frame = stack.at(-1) as Frame;
          const raw = text.toString('utf8', at + 1, end);
          frame.key = raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
          const told = frame.keys?.get(frame.key);
          if (told === false && duplicates.size < MAX_DUPLICATES && paths < MAX_PATHS) {
            paths += 1;
            duplicates.add(pathOf(stack));
          }
          frame.keys?.set(frame.key, told !== undefined);
          expectKey = false;
        }
        at = end;
        break;
      }
      case 0x7b: // {
        stack.push({ keys: new Map(), key: '', index: 0 });
        expectKey = true;
        break;
      case 0x5b: // [
        stack.push({ keys: undefined, key: '', index: 0 });
        expectKey = false;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        stack.pop();
        expectKey = false;
        break;
      case 0x2c: {
        // ,
        const frame = stack.at(-1) as Frame;
        frame.index += 1;
        expectKey = frame.keys !== undefined;
        break;
      }
      default:
    }
  }
  return [...duplicates];
}

function endOfString(text: Uint8Array, start: number): number {
  let end = start + 1;
  while (text[end] !== QUOTE) end += text[end] === BACKSLASH ? 2 : 1;
  return end;
}

function pathOf(stack: readonly Frame[]): string {
  let path = '';
  for (const frame of stack) {
    if (frame.keys === undefined) path += `[${frame.index}]`;
    else path += path === '' ? frame.key : `.${frame.key}`;
    if (path.length > MAX_PATH_LENGTH) return `${path.slice(0, MAX_PATH_LENGTH)}…`;
  }
  return path;
}
