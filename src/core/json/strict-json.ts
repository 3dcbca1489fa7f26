// core/json is for reading JSON that others wrote: manifests, bundles, tokens. Nothing here knows
// what the JSON is about.
//
// This file finds what JSON.parse lets pass: fields that stand twice in one object, and nesting so
// deep that code which walks the value would run out of stack. One pass over the text, O(length).

/** Deeper than any kind nests, shallow enough for recursive walks. */
const MAX_DEPTH = 512;
/** The largest Role that the schema allows has fewer. */
export const MAX_VALUES = 100_000;
/** Go's decoder reports so many, and so do we. */
const MAX_DUPLICATES = 100;
/** What stands twice in a hostile text is not all spelt out, nor to its end. */
const MAX_PATHS = 1000;
const MAX_PATH_LENGTH = 1024;

export interface JsonFindings {
  /** Paths such as `spec.rules[0].verbs`, in order of appearance, each once, the first hundred; long ones end in `…`. */
  readonly duplicates: readonly string[];
  /** The bracket that went too deep. */
  readonly tooDeep: '{' | '[' | undefined;
  /** Whether there are more values than any object needs: walking them would hold up everyone else. */
  readonly tooMany: boolean;
}

interface Frame {
  /** With whether it was told that the key stands twice. Undefined for an array. */
  readonly keys: Map<string, boolean> | undefined;
  key: string;
  index: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** `text` must be valid JSON: call this after JSON.parse. */
export function inspectJson(text: string): JsonFindings {
  const stack: Frame[] = [];
  const duplicates = new Set<string>();
  let paths = 0;
  let values = 0;
  let expectKey = false;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const end = endOfString(text, at);
        if (expectKey) {
          const frame = stack.at(-1) as Frame;
          const raw = text.slice(at + 1, end);
          frame.key = raw.includes('\\') ? (JSON.parse(text.slice(at, end + 1)) as string) : raw;
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
        if (stack.length > MAX_DEPTH) return findings(duplicates, '{', false);
        expectKey = true;
        break;
      case 0x5b: // [
        stack.push({ keys: undefined, key: '', index: 0 });
        if (stack.length > MAX_DEPTH) return findings(duplicates, '[', false);
        expectKey = false;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        stack.pop();
        expectKey = false;
        break;
      case 0x2c: {
        // ,
        values += 1;
        if (values >= MAX_VALUES) return findings(duplicates, undefined, true);
        const frame = stack.at(-1) as Frame;
        frame.index += 1;
        expectKey = frame.keys !== undefined;
        break;
      }
      default:
    }
  }
  return findings(duplicates, undefined, false);
}

function findings(
  duplicates: ReadonlySet<string>,
  tooDeep: JsonFindings['tooDeep'],
  tooMany: boolean,
): JsonFindings {
  return { duplicates: [...duplicates], tooDeep, tooMany };
}

function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (text.charCodeAt(end - 1) === BACKSLASH) {
    let backslashes = 1;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) break;
    end = text.indexOf('"', end + 1);
  }
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
