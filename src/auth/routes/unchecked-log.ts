// Log lines about reviews without a verdict, with the short hash of the token. At most one for each cluster
// and ten seconds: an outage can affect thousands of reviews a second.

import type { Clock } from '../../core/clock/clock.ts';
import type { Log } from '../../core/log/log.ts';
import { tokenHash } from '../review/token-hash.ts';

const everyMs = 10_000;

interface Noted {
  readonly atMs: number;
  /** Reviews since then that got no line. */
  skipped: number;
}

export class UncheckedLog {
  readonly #parts: { readonly log: Log; readonly clock: Pick<Clock, 'monotonic'> };
  readonly #noted = new Map<string, Noted>();

  constructor(parts: { readonly log: Log; readonly clock: Pick<Clock, 'monotonic'> }) {
    this.#parts = parts;
  }

  note(cluster: string, token: string, error: unknown): void {
    const { log, clock } = this.#parts;
    const nowMs = clock.monotonic();
    const last = this.#noted.get(cluster);
    if (last !== undefined && nowMs < last.atMs + everyMs) {
      last.skipped += 1;
      return;
    }
    this.#noted.set(cluster, { atMs: nowMs, skipped: 0 });
    const more = last === undefined || last.skipped === 0 ? {} : { moreSinceLast: last.skipped };
    // The log hides fields that are named after tokens.
    log.warn('cannot review a token', { cluster, hash: tokenHash(token), ...more, error });
  }

  /** For a cluster that is gone. */
  forget(cluster: string): void {
    this.#noted.delete(cluster);
  }
}
