// Queue of audit records for callers that do not wait until the record is written. It writes them
// in batches, and keeps them for a while when the disk is full.

import type { Clock, Timer } from '../clock/clock.ts';
import { commitUnfenced } from '../lease/current-fence.ts';
import type { Log } from '../log/log.ts';
import type { AuditRow, Store } from '../store/store.ts';
import { type AuditDraft, encodeEvent } from './event.ts';
import { isoTime } from './query.ts';

/** Most waiting records. Beyond it, the queue drops the oldest and counts them. */
const mostWaiting = 10_000;
/** Half of the largest commit of the store. */
const mostRowsAtOnce = 256;
/** Delay before a retry. */
const retryMs = 60_000;

export interface WaitingRowsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when the queue dropped records. */
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

  /** Adds a record. The queue writes it within `delayMs` unless the disk fails. */
  add(draft: AuditDraft, delayMs: number): void {
    this.#waiting.push({ draft, time: isoTime(this.#options.clock.now()) });
    this.#bound();
    // A full batch is written at once, unless the last write failed just now.
    if (this.#waiting.length >= mostRowsAtOnce && !this.#refused && !this.#stopped) {
      void this.#flush();
    } else this.#schedule(delayMs);
  }

  /** Writes all waiting records now, unless the last write failed just now. */
  async flush(): Promise<void> {
    // A running write may not include the newest records.
    await this.#flushing;
    if (!this.#refused) await this.#flush();
  }

  /** Writes all waiting records and sets no more timers. */
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
        await commitUnfenced(store, { audit: rows });
        this.#refused = false;
      } catch (error) {
        this.#refused = true;
        this.#lost += lost;
        this.#waiting.unshift(...batch);
        this.#bound();
        log.warn('cannot write waiting audit records', { error, waiting: this.#waiting.length });
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

/** A record without a change, and so without a revision. */
function rowAlone(draft: AuditDraft, time: string): AuditRow {
  return { encode: ({ index }) => encodeEvent({ ...draft, time, index }) };
}

function lostDraft(count: number): AuditDraft {
  return {
    actor: { user: 'system:audit', groups: [], via: 'controller' },
    verb: 'lose',
    outcome: 'error',
    reason: 'records of renewals and denials could not be written and were dropped',
    count,
  };
}
