// `make coverage`: line coverage of the product by folder. Every Node process writes its coverage
// (NODE_V8_COVERAGE), including daemons and commands that tests start, unless SIGKILL ends it.

import { globSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { scan } from '../source-scan.ts';
import { isProduct } from './source-graph.ts';

/** A part of the format of V8's coverage: https://nodejs.org/api/cli.html#coverage-output */
export interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly CountedRange[] }[];
}

interface CountedRange {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

export interface FolderCoverage {
  readonly folder: string;
  readonly lines: number;
  readonly covered: number;
}

/** The lines of one file that hold code; declarations of types, comments and lone brackets are none. */
export class FileLines {
  /** From where to where each of them holds code. */
  readonly #lines: readonly { readonly from: number; readonly to: number }[];
  readonly #covered: boolean[];

  constructor(typescript: string) {
    // Types become white space, so that offsets stay.
    const code = scan(stripTypeScriptTypes(typescript)).code;
    const lines: { from: number; to: number }[] = [];
    let at = 0;
    for (const line of code.split('\n')) {
      const trimmed = line.trim();
      if (/\w/.test(trimmed)) {
        const from = at + line.indexOf(trimmed);
        lines.push({ from, to: from + trimmed.length });
      }
      at += line.length + 1;
    }
    this.#lines = lines;
    this.#covered = lines.map(() => false);
  }

  get count(): number {
    return this.#lines.length;
  }

  get covered(): number {
    return this.#covered.filter(Boolean).length;
  }

  /** Adds the run of one process. A line is covered when a process has run its beginning. */
  add(functions: ScriptCoverage['functions']): void {
    // Ranges are nested, and the innermost counts: the shortest is looked at last.
    const ranges = functions
      .flatMap((each) => each.ranges)
      .toSorted((a, b) => b.endOffset - b.startOffset - (a.endOffset - a.startOffset));
    const ran = this.#lines.map(() => false);
    for (const { startOffset, endOffset, count } of ranges) {
      for (let i = this.#firstFrom(startOffset); i < ran.length; i++) {
        const line = this.#lines[i];
        if (line === undefined || line.from >= endOffset) break;
        ran[i] = count > 0;
      }
    }
    ran.forEach((did, i) => {
      if (did) this.#covered[i] = true;
    });
  }

  #firstFrom(offset: number): number {
    let [low, high] = [0, this.#lines.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#lines[middle]?.from ?? 0) < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export class Coverage {
  readonly #files = new Map<string, FileLines>();
  readonly #root: string;

  /** Every file of the product counts, also one that no test loads. */
  constructor(root: string) {
    this.#root = root;
    for (const path of globSync('src/**/*.ts', { cwd: root }).toSorted()) {
      if (isProduct(path)) {
        this.#files.set(path, new FileLines(readFileSync(join(root, path), 'utf8')));
      }
    }
  }

  add(scripts: readonly ScriptCoverage[]): void {
    const prefix = pathToFileURL(`${this.#root}/`).href;
    for (const { url, functions } of scripts) {
      if (!url.startsWith(prefix)) continue;
      const path = fileURLToPath(url).slice(this.#root.length + 1);
      this.#files.get(path)?.add(functions);
    }
  }

  /** Takes what processes have written into the folder, and removes it: thousands would fill the disk. */
  collect(folder: string): void {
    for (const name of readdirSync(folder)) {
      const path = join(folder, name);
      let text: string;
      try {
        text = readFileSync(path, 'utf8');
        this.add((JSON.parse(text) as { readonly result: readonly ScriptCoverage[] }).result);
      } catch {
        // Still being written, or cut off by a kill: the last collection sees which.
        continue;
      }
      rmSync(path);
    }
  }

  /** Each folder with what is below it, and the whole at the end. */
  byFolder(): readonly FolderCoverage[] {
    const folders = new Map<string, { lines: number; covered: number }>();
    for (const [path, file] of this.#files) {
      for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) {
        const sum = folders.get(folder) ?? { lines: 0, covered: 0 };
        folders.set(folder, sum);
        sum.lines += file.count;
        sum.covered += file.covered;
      }
    }
    return [...folders]
      .map(([folder, sum]) => ({ folder, ...sum }))
      .toSorted((a, b) => (a.folder < b.folder ? -1 : 1));
  }
}

export function coverageTable(folders: readonly FolderCoverage[]): string {
  const width = Math.max(6, ...folders.map(({ folder }) => folder.length));
  const row = (folder: string, covered: string, lines: string, share: string): string =>
    `${folder.padEnd(width)}  ${covered.padStart(7)}  ${lines.padStart(7)}  ${share.padStart(7)}`;
  return [
    row('folder', 'covered', 'lines', 'share'),
    ...folders.map(({ folder, covered, lines }) => {
      const share = lines === 0 ? '-' : `${((100 * covered) / lines).toFixed(1)} %`;
      return row(folder, String(covered), String(lines), share);
    }),
  ].join('\n');
}
