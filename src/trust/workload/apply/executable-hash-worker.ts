// The thread that hashes programs: one question, one answer. It closes nothing: the descriptor is
// of whoever asked.

import { createHash } from 'node:crypto';
import { readSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';

export interface HashQuestion {
  readonly fd: number;
  readonly maxBytes: number;
}

export interface HashAnswer {
  readonly sha256: string | undefined;
}

const chunk = Buffer.allocUnsafe(1024 * 1024);

parentPort?.on('message', ({ fd, maxBytes }: HashQuestion) => {
  parentPort?.postMessage({ sha256: hash(fd, maxBytes) } satisfies HashAnswer, []);
});

function hash(fd: number, maxBytes: number): string | undefined {
  const digest = createHash('sha256');
  let position = 0;
  try {
    for (;;) {
      const count = readSync(fd, chunk, 0, chunk.length, position);
      if (count === 0) return digest.digest('hex');
      position += count;
      if (position > maxBytes) return undefined;
      digest.update(chunk.subarray(0, count));
    }
  } catch {
    return undefined;
  }
}
