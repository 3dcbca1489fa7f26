// Lists the files that differ from the main branch, with git.

import { execFileSync } from 'node:child_process';

/**
 * Commits since the merge base with `base`, and what is not committed yet, new files included. Renamed
 * files are here under both names. On the main branch itself only what is not committed is left.
 */
export function changedFiles(base: string): readonly string[] {
  const since = git('merge-base', base, 'HEAD').trim();
  const lists = [
    git('diff', '--name-only', '--no-renames', '-z', since),
    git('ls-files', '--others', '--exclude-standard', '-z'),
  ];
  const files = lists.flatMap((list) => list.split('\0')).filter((file) => file !== '');
  return [...new Set(files)].toSorted();
}

function git(...args: readonly string[]): string {
  return execFileSync('git', args, { encoding: 'utf8' });
}
