// Limits the output of answers and watches that clients have not read yet: one memory budget for all of
// it, a share of the budget for each user, and a deadline. Beyond the budget, the output that has waited
// longest is cut off.

import type { Clock, Timer } from '../../core/clock/clock.ts';

export interface UnreadOutput {
  /** Ends the answer or the watch without further output. Must not throw. */
  cutOff(): void;
}

export interface UnreadLimits {
  /** A client must read an answer, or a chunk of a watch, within this time. */
  readonly withinMs: number;
  /** For all clients together. One user can have one fourth. */
  readonly maxBytes: number;
}

/** As for concurrent requests (room.ts). */
const share = 4;
/** What one write may have, however little is left: the limits on concurrent requests bound the sum. */
const minWriteBytes = 32 * 1024;
/** A list of 1,000 objects is sent with one write. */
export const maxWriteBytes = 1024 * 1024;

interface Account {
  bytes: number;
  /** Oldest output first. */
  readonly waiting: Map<UnreadOutput, Held>;
}

interface Held {
  readonly user: string;
  readonly account: Account;
  readonly sinceMs: number;
  bytes: number;
}

export class UnreadBudget {
  readonly #clock: Clock;
  readonly #limits: UnreadLimits;
  readonly #shareBytes: number;
  /** Oldest output first. */
  readonly #waiting = new Map<UnreadOutput, Held>();
  /** By user. Only those with unread output. */
  readonly #accounts = new Map<string, Account>();
  #bytes = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock, limits: UnreadLimits) {
    this.#clock = clock;
    this.#limits = limits;
    this.#shareBytes = Math.floor(limits.maxBytes / share);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** How much one write for this user may have now. Each write takes a quarter of what is left, so that many fit. */
  writeBytes(user: string): number {
    const left = this.#shareBytes * 0.75 - (this.#accounts.get(user)?.bytes ?? 0);
    return Math.floor(Math.min(maxWriteBytes, Math.max(minWriteBytes, left / 4)));
  }

  /** Output of this size waits. Starts its deadline, or restarts it. */
  hold(output: UnreadOutput, user: string, bytes: number): void {
    this.release(output);
    const account = this.#accounts.get(user) ?? { bytes: 0, waiting: new Map() };
    this.#accounts.set(user, account);
    const held = { user, account, sinceMs: this.#clock.monotonic(), bytes };
    this.#waiting.set(output, held);
    account.waiting.set(output, held);
    this.#count(held, bytes);
    if (this.#timer === undefined) this.#lookAfter(this.#limits.withinMs);
  }

  /** More output waits, or less. Does not change the deadline. */
  grow(output: UnreadOutput, bytes: number): void {
    const held = this.#waiting.get(output);
    if (held === undefined) return;
    held.bytes += bytes;
    this.#count(held, bytes);
  }

  /** The client has read the output, or the answer or watch has ended. */
  release(output: UnreadOutput): void {
    const held = this.#waiting.get(output);
    if (held === undefined) return;
    const { user, account, bytes } = held;
    this.#waiting.delete(output);
    account.waiting.delete(output);
    account.bytes -= bytes;
    this.#bytes -= bytes;
    if (account.waiting.size === 0) this.#accounts.delete(user);
  }

  #count({ account }: Held, bytes: number): void {
    account.bytes += bytes;
    this.#bytes += bytes;
    while (account.bytes > this.#shareBytes) this.#cutOffOldest(account);
    while (this.#bytes > this.#limits.maxBytes) this.#cutOffOldest(this.#largest());
  }

  /** The user with the most unread output pays first, so that many small readers do not. */
  #largest(): Account {
    let largest: Account | undefined;
    for (const account of this.#accounts.values()) {
      if (largest === undefined || account.bytes > largest.bytes) largest = account;
    }
    return largest as Account;
  }

  #cutOffOldest(account: Account): void {
    const [output] = account.waiting.keys();
    this.#cutOff(output as UnreadOutput);
  }

  #cutOff(output: UnreadOutput): void {
    this.release(output);
    output.cutOff();
  }

  #lookAfter(ms: number): void {
    // After a pause of the process, timers run before I/O events. Lets reads of clients arrive first.
    this.#timer = this.#clock.timer(ms, () => setImmediate(() => this.#cutOffLate()));
  }

  #cutOffLate(): void {
    this.#timer = undefined;
    const due = this.#clock.monotonic() - this.#limits.withinMs;
    for (const [output, { sinceMs }] of this.#waiting) {
      if (sinceMs > due) {
        this.#lookAfter(sinceMs - due);
        return;
      }
      this.#cutOff(output);
    }
  }
}
