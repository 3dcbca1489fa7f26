// Records that their event does not wait for: gathered, written in batches, and kept for a while where
// the disk is full.

import type { Clock, Timer } from '../clock/clock.ts';
import type { Log } from '../log/log.ts';
import type { AuditRow, Store } from '../store/store.ts';
import { type AuditDraft, encodeEvent } from './event.ts';
import { isoTime } from './query.ts';

/** Beyond so many, the oldest are given up and counted. */
const mostWaiting = 10_000;
/** Half of what the store takes in one commit. */
const mostRowsAtOnce = 256;
/** Before it is tried again after a failure. */
const retryMs = 60_000;

export interface WaitingRowsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when rows were given up. */
  readonly lost: (rows: number) => void;
  /** Called when rows were written. */
  readonly written: () => void;
}

export class WaitingRows {
  readonly #options: WaitingRowsOptions;
  readonly #waiting: { readonly draft: AuditDraft; readonly time: string }[] = [];
  #lost = 0;
  #timer: Timer | undefined;
  #flushing: Promise<void> | undefined;
  #refused = false;
  #stopped = false;

  constructor(options: WaitingRowsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** Written within `delayMs`, if the disk lets us. */
  add(draft: AuditDraft, delayMs: number): void {
    this.#waiting.push({ draft, time: isoTime(this.#options.clock.now()) });
    this.#bound();
    // Those who come by the thousand are written as they come, unless the disk has just refused.
    if (this.#waiting.length >= mostRowsAtOnce && !this.#refused && !this.#stopped) {
      void this.#flush();
    } else this.#schedule(delayMs);
  }

  /** Writes what waits now, unless the disk has just refused. */
  async flush(): Promise<void> {
    // One that is under way may be past what was added last.
    await this.#flushing;
    if (!this.#refused) await this.#flush();
  }

  /** Writes what waits, and sets no timer any more. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#flush();
  }

  #schedule(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer ??= this.#options.clock.timer(delayMs, () => {
      this.#timer = undefined;
      void this.#flush();
    });
  }

  #flush(): Promise<void> {
    this.#flushing ??= this.#write().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #write(): Promise<void> {
    const { store, clock, log } = this.#options;
    if (this.#waiting.length === 0) return;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, mostRowsAtOnce);
      const lost = this.#lost;
      this.#lost = 0;
      const rows = batch.map(({ draft, time }) => rowAlone(draft, time));
      if (lost > 0) rows.push(rowAlone(lostDraft(lost), isoTime(clock.now())));
      try {
        await store.commit({ audit: rows });
        this.#refused = false;
      } catch (error) {
        this.#refused = true;
        this.#lost += lost;
        this.#waiting.unshift(...batch);
        this.#bound();
        log.warn('cannot write audit records that wait', { error, waiting: this.#waiting.length });
        this.#schedule(retryMs);
        return;
      }
    }
    this.#options.written();
  }

  #bound(): void {
    const over = this.#waiting.length - mostWaiting;
    if (over <= 0) return;
    this.#waiting.splice(0, over);
    this.#lost += over;
    this.#options.lost(over);
  }
}

/** A row that comes with no change, and so has no revision. */
function rowAlone(draft: AuditDraft, time: string): AuditRow {
  return { encode: ({ index }) => encodeEvent({ ...draft, time, index }) };
}

function lostDraft(count: number): AuditDraft {
  return {
    actor: { user: 'system:audit', groups: [], via: 'controller' },
    verb: 'lose',
    outcome: 'error',
    reason: 'records of renewals and denials could not be written and were given up',
    count,
  };
}
