// The previous build of this project, taken out of the git history: the same program that sites in the field run
// before they update. It uses the packages of this checkout.

import { execFileSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository, temporaryFolder } from './daemon.ts';

/**
 * The last commit before peers exchanged the keys of their audit logs, before approvals, and before the contract
 * version of the handshake counted.
 */
export const previousCommit = '0ee5fb3ff2510563b575fe514fd996c05508eadb';

/** The first commit whose SPIRE servers start with the entry point of SPIRE's image, as the test kubelet has it. */
export const previousOperator = 'f9a1cb5d7cafd2fe9f7f40ef24c0719a92862517';

/** Why it cannot run here, for example in a clone without history; false where it can. */
export function whyNoPreviousBuild(): string | false {
  let lock: string;
  try {
    lock = git('show', `${previousCommit}:package-lock.json`).toString('utf8');
  } catch {
    return `SKIPPED: the git history of this checkout has no commit ${previousCommit}`;
  }
  return lock === readFileSync(join(repository, 'package-lock.json'), 'utf8')
    ? false
    : 'SKIPPED: the previous build needs other packages than this checkout';
}

/** Its launcher, in a folder of its own that is removed at the end. */
export function unpackPreviousBuild(parent?: string, commit = previousCommit): string {
  const folder = temporaryFolder(parent);
  const archive = join(folder, 'previous.tar');
  writeFileSync(archive, git('archive', '--format=tar', commit));
  execFileSync('tar', ['-xf', archive, '-C', folder]);
  symlinkSync(join(repository, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'hansa');
}

function git(...args: readonly string[]): Buffer {
  return execFileSync('git', args, {
    cwd: repository,
    maxBuffer: 256 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}
