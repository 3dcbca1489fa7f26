// The process as an `Io`: the one place of the command line that touches it.

import { join } from 'node:path';
import { systemClock, systemRandom } from '../core/clock/system.ts';
import type { Io } from './cli.ts';

export function processIo(): Io {
  let controller: AbortController | undefined;
  return {
    stdout: process.stdout,
    stderr: process.stderr,
    stdin: process.stdin,
    env: process.env,
    cwd: process.cwd(),
    clock: systemClock,
    random: systemRandom,
    launcher: join(import.meta.dirname, '..', '..', 'hansa'),
    interruption: () => {
      if (controller !== undefined) return controller.signal;
      const created = new AbortController();
      controller = created;
      for (const signal of ['SIGINT', 'SIGTERM'] as const) {
        // Once only: a second signal ends the process at once.
        process.once(signal, () => created.abort(new Error(`interrupted by ${signal}`)));
      }
      return created.signal;
    },
  };
}
