// Scans TypeScript to separate code, comments and strings, and to find the modules that a file
// imports. TypeScript 7 has no compiler API for this.

export interface Source {
  /** The text with comments and the insides of strings blanked; offsets and lines stay. */
  readonly code: string;
  readonly imports: readonly Import[];
  /** The quoted strings that are not the specifier of an import, in order. Templates are not among them. */
  readonly strings: readonly Quoted[];
}

export interface Quoted {
  readonly text: string;
  /** What it follows as the next argument: the string before it, or the folder of the file. */
  readonly after: 'string' | 'dirname' | undefined;
}

export interface Import {
  readonly specifier: string;
  /** `import type` and `export type` leave nothing at run time. */
  readonly typeOnly: boolean;
  /** `import()` and `import.meta.resolve()`: loaded when the code runs, or by another process, not with the file. */
  readonly lazy?: true;
  readonly line: number;
}

export function scan(text: string): Source {
  const code = Array.from(text);
  const strings = new Map<number, string>();
  const blank = (from: number, to: number): void => {
    for (let i = from; i < to; i += 1) if (code[i] !== '\n') code[i] = ' ';
  };
  const source = code.slice();
  const end = source.length;
  /** Depths of braces at which a template literal goes on after `${ … }`. */
  const templates: number[] = [];
  let depth = 0;
  let at = 0;
  let previous = '';

  const templateFrom = (start: number): number => {
    let i = start;
    while (i < end && source[i] !== '`') {
      if (source[i] === '\\') i += 1;
      else if (source[i] === '$' && source[i + 1] === '{') {
        blank(start, i);
        templates.push(depth);
        depth += 1;
        return i + 2;
      }
      i += 1;
    }
    blank(start, i);
    return i + 1;
  };

  while (at < end) {
    const char = source[at] ?? '';
    const next = source[at + 1];
    if (char === '/' && next === '/') {
      const stop = indexFrom(source, '\n', at);
      blank(at, stop);
      at = stop;
    } else if (char === '/' && next === '*') {
      let stop = at + 2;
      while (stop < end && !(source[stop] === '*' && source[stop + 1] === '/')) stop += 1;
      blank(at, stop + 2);
      at = stop + 2;
    } else if (char === "'" || char === '"') {
      let stop = at + 1;
      while (stop < end && source[stop] !== char && source[stop] !== '\n') {
        stop += source[stop] === '\\' ? 2 : 1;
      }
      strings.set(at, source.slice(at + 1, stop).join(''));
      blank(at + 1, stop);
      at = stop + 1;
      previous = char;
    } else if (char === '`') {
      at = templateFrom(at + 1);
      previous = '`';
    } else if (char === '/' && startsRegExp(previous, code, at)) {
      let stop = at + 1;
      let inClass = false;
      while (stop < end && source[stop] !== '\n' && (inClass || source[stop] !== '/')) {
        if (source[stop] === '\\') stop += 1;
        else if (source[stop] === '[') inClass = true;
        else if (source[stop] === ']') inClass = false;
        stop += 1;
      }
      blank(at + 1, stop);
      at = stop + 1;
      previous = '/';
    } else {
      if (char === '{') depth += 1;
      if (char === '}') {
        depth -= 1;
        if (templates.at(-1) === depth) {
          templates.pop();
          at = templateFrom(at + 1);
          previous = '`';
          continue;
        }
      }
      if (char.trim() !== '') previous = char;
      at += 1;
    }
  }
  return { code: code.join(''), ...sortStrings(code, strings) };
}

function indexFrom(source: readonly string[], char: string, from: number): number {
  const found = source.indexOf(char, from);
  return found < 0 ? source.length : found;
}

/** A slash after a value divides; after an operator, an opening bracket or a keyword it opens an expression. */
function startsRegExp(previous: string, code: readonly string[], at: number): boolean {
  if (previous === '' || '(,=:[!&|?{};+-*%<>~^'.includes(previous)) return true;
  const before = code
    .slice(Math.max(0, at - 12), at)
    .join('')
    .trimEnd();
  return /\b(?:return|typeof|case|in|of|void|yield|await)$/.test(before);
}

function sortStrings(
  code: readonly string[],
  all: ReadonlyMap<number, string>,
): Pick<Source, 'imports' | 'strings'> {
  const imports: Import[] = [];
  const strings: Quoted[] = [];
  /** Where the last string ended. */
  let last = 0;
  for (const [at, text] of all) {
    const imported = importAt(code, at, text);
    if (imported !== undefined) imports.push(imported);
    else
      strings.push({ text, after: precedent(code.slice(Math.max(last, at - 100), at).join('')) });
    last = at + Array.from(text).length + 2;
  }
  return { imports, strings };
}

function precedent(between: string): Quoted['after'] {
  if (/^,\s*$/.test(between)) return 'string';
  return /\bimport\.meta\.dirname,\s*$/.test(between) ? 'dirname' : undefined;
}

function importAt(code: readonly string[], at: number, specifier: string): Import | undefined {
  // Most strings are none, and the last few characters tell.
  if (
    !/(?:\bfrom|\bimport|\bimport\(|\bimport\.meta\.resolve\()\s*$/.test(
      code.slice(Math.max(0, at - 40), at).join(''),
    )
  ) {
    return undefined;
  }
  const before = code.slice(Math.max(0, at - 4000), at).join('');
  const statement =
    /(?:^|[\n;}])\s*(import|export)(\s+type)?\b[\w\s{},*$'"]*\bfrom\s*$/.exec(before) ??
    /(?:^|[\n;}])\s*(import)()\s*$/.exec(before) ??
    /\b(import)()(?:\.meta\.resolve)?\(\s*$/.exec(before);
  if (statement === null) return undefined;
  const line = code.slice(0, at).filter((char) => char === '\n').length + 1;
  const lazy = /\(\s*$/.test(statement[0]);
  const typeOnly = statement[2]?.trim() === 'type';
  return { specifier, typeOnly, ...(lazy && { lazy }), line };
}
