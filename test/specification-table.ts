// Reads docs/specifications.md, and finds the tests that it names.

import { scan } from './source-scan.ts';

export interface Row {
  readonly specification: string;
  readonly section: string;
  readonly says: string;
  readonly does: string;
  readonly shownBy: string;
}

/** Rows of the tables below each heading of the second level: section, says, does, shown by. */
export function rowsOf(markdown: string): readonly Row[] {
  const rows: Row[] = [];
  let specification = '';
  for (const line of markdown.split('\n')) {
    if (line.startsWith('## ')) specification = line.slice(3).trim();
    if (!line.startsWith('| ') || line.startsWith('| §') || line.startsWith('| ---')) continue;
    const cells = line.split('|').slice(1, -1);
    const [section = '', says = '', does = '', shownBy = ''] = cells.map((cell) => cell.trim());
    if (cells.length !== 4) throw new Error(`not four columns: ${line}`);
    rows.push({ specification, section, says, does, shownBy });
  }
  return rows;
}

/** `file.test.ts` › name of the test, as many as there are, between <br>. */
export function namedTests({ shownBy }: Row): readonly { file: string; name: string }[] {
  return shownBy.split('<br>').flatMap((each) => {
    const [, file, name] = /^\s*`([^`]+\.test\.ts)` › (.+?)\s*$/.exec(each) ?? [];
    return file === undefined || name === undefined ? [] : [{ file, name }];
  });
}

const call = /\b(?:test|it)\(\s*/g;
const literal = /^(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")/s;
const template = /^`((?:[^`\\]|\\.)*)`/s;

/**
 * Is there a test of this name? Of a name that is made, the fixed parts must fit, and what stands
 * for the rest must be written somewhere in the file, or in `samples` that it imports: the row of a
 * table, say. A name that is a variable must be there as it is.
 */
export function hasTest(text: string, name: string, samples = ''): boolean {
  const { code } = scan(text);
  const texts = text + samples;
  for (const match of code.matchAll(call)) {
    const rest = text.slice(match.index + match[0].length);
    const plain = literal.exec(rest);
    if (plain !== null) {
      if ((plain[1] ?? plain[2] ?? '').replaceAll(/\\(.)/g, '$1') === name) return true;
      continue;
    }
    const made = template.exec(rest)?.[1];
    if (made === undefined) {
      if (texts.includes(`'${name}'`) || texts.includes(`"${name}"`)) return true;
      continue;
    }
    const fixed = made.split(/\$\{[^}]*\}/);
    const pattern = fixed.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    const values = new RegExp(`^${pattern.join('(.*)')}$`).exec(name)?.slice(1);
    if (values?.every((value) => texts.includes(value.replaceAll(/^"|"$/g, '')))) return true;
  }
  return false;
}

/** Files for tests only that this one imports. */
export function samplesOf(text: string): readonly string[] {
  const { imports } = scan(text);
  return imports.map(({ specifier }) => specifier).filter((path) => path.startsWith('./test-'));
}
