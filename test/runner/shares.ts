// Divides unit tests into shares. One process runs a share, because half of the time of a process per
// file would go into starting Node and loading the same modules again.

import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Twice as many save two more seconds, but then one core waits longer for the other at the end. */
const filesPerShare = 16;

/**
 * Neighbours share a process, because they import the same modules. Each simulation gets a process and
 * starts first, because one of them takes as long as a whole share.
 */
export function sharesOf(files: readonly string[]): readonly (readonly string[])[] {
  const isLong = (file: string): boolean => /^test\/(?:simulation|fuzz)\//.test(file);
  const shares: (readonly string[])[] = files.filter(isLong).map((file) => [file]);
  const short = files.filter((file) => !isLong(file));
  for (let i = 0; i < short.length; i += filesPerShare) {
    shares.push(short.slice(i, i + filesPerShare));
  }
  return shares;
}

/**
 * Writes a program that runs the files one after another, each as a suite with the name of the file, so
 * that its hooks and failures stay with it. Returns the path; a share of one file needs no program.
 */
export function writeShare(folder: string, index: number, files: readonly string[]): string {
  const [only] = files;
  if (files.length === 1 && only !== undefined) return only;
  const path = join(folder, `share-${index}.mjs`);
  const suites = files.map((file) => {
    const url = pathToFileURL(resolve(file)).href;
    return `await suite(${JSON.stringify(file)}, () => import(${JSON.stringify(url)}));`;
  });
  // A test may wait for something that keeps no process alive, such as a watched file.
  const program = [
    "import { suite } from 'node:test';",
    'const awake = setInterval(() => undefined, 60_000);',
    ...suites,
    'clearInterval(awake);',
  ];
  writeFileSync(path, program.join('\n'));
  return path;
}
