// The process that hashes executables: one request, one response. It ends when the channel to the site does.

import { createHash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { fileVersionKey } from './executable-hash.ts';

export interface HashQuestion {
  readonly pid: number;
  /** Of the file that was seen. */
  readonly key: string;
  readonly maxBytes: number;
}

export interface HashAnswer {
  readonly sha256: string | undefined;
}

const chunk = Buffer.allocUnsafe(1024 * 1024);

process.on('message', (question: HashQuestion) => {
  process.send?.({ sha256: hash(question) } satisfies HashAnswer);
});

function hash({ pid, key, maxBytes }: HashQuestion): string | undefined {
  try {
    const fd = openSync(`/proc/${pid}/exe`, 'r');
    try {
      if (keyOf(fd) !== key) return undefined;
      const sha256 = digestOf(fd, maxBytes);
      // A write during the hashing changes the times of the file, and so its key.
      return keyOf(fd) === key ? sha256 : undefined;
    } finally {
      closeSync(fd);
    }
  } catch {
    return undefined;
  }
}

function keyOf(fd: number): string {
  return fileVersionKey(fstatSync(fd, { bigint: true }));
}

function digestOf(fd: number, maxBytes: number): string | undefined {
  const digest = createHash('sha256');
  for (let position = 0; ; ) {
    const count = readSync(fd, chunk, 0, chunk.length, position);
    if (count === 0) return digest.digest('hex');
    position += count;
    if (position > maxBytes) return undefined;
    digest.update(chunk.subarray(0, count));
  }
}
