// Validates the form of a commit before it is queued, so that callers get their errors at once.

import { HansaError } from '../../errors/error.ts';
import type { Commit } from '../store.ts';

/** Longer than any name of Kubernetes (253), and far below what a key costs to compare. */
const maxNameBytes = 1024;
/** A commit cannot be split across transactions, so it must be small compared to one. */
const maxCommitRows = 512;

export function checkCommit(commit: Commit): void {
  const rows =
    (commit.put?.length ?? 0) + (commit.delete?.length ?? 0) + (commit.audit?.length ?? 0);
  if (rows > maxCommitRows) {
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Cannot commit ${rows} changes and audit records at once: the limit is ${maxCommitRows}.`,
    );
  }
  for (const put of commit.put ?? []) checkKey(put.collection, put.name);
  for (const key of commit.delete ?? []) checkKey(key.collection, key.name);
}

function checkKey(collection: string, name: string): void {
  checkName('collection', collection);
  checkName('name', name);
}

function checkName(what: string, value: string): void {
  // A lone surrogate has no UTF-8, and NUL would end the text early in some databases.
  const problem =
    value === ''
      ? 'it is empty'
      : !value.isWellFormed() || value.includes('\0')
        ? 'it is not valid Unicode text without NUL'
        : Buffer.byteLength(value) > maxNameBytes
          ? `it is longer than ${maxNameBytes} bytes`
          : undefined;
  if (problem === undefined) return;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot store under the ${what} ${JSON.stringify(value.slice(0, 64))}: ${problem}.`,
  );
}
