// One watch: the existing objects, then every change, until the client disconnects, the timeout ends, or
// the client reads too slowly. Encodes lines only when the client reads, so that a slow client holds
// references to stored objects and one chunk of bytes.

import type { ServerResponse } from 'node:http';
import type { Kind } from '../../api/kind.ts';
import type { Clock, Random, Timer } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import type { Change, Entry, Store, Watch } from '../../core/store/store.ts';
import type { WorkTurns } from '../../core/limits/work-turns.ts';
import type { Exchange } from '../http/exchange.ts';
import type { UnreadBudget, UnreadOutput } from '../http/unread-output.ts';
import { type Selection, selects } from './lister.ts';
import { objectOf } from './object-of.ts';
import type { ListOptions } from './options.ts';
import { errorLine, type EventLines } from './watch-events.ts';
import type { GuardedWatch } from './watch-guard.ts';
import type { Outlet, WatchPump } from './watch-pump.ts';

/** Maximum size of pending changes. Beyond it the watch ends, and its client resumes from the last event. */
const maxBehindBytes = 8 * 1024 * 1024;
/** Size of one write. A client that reads 1 KB per second stays within the default deadline of a minute. */
const chunkBytes = 32 * 1024;
/** Maximum number of objects per turn, because a selector may match none of many. */
const maxLooked = { plain: 256, costly: 32 };
/** Memory for the reference to a pending change. */
const referenceBytes = 64;
/** kube-apiserver's --min-request-timeout: a watch without a timeout lasts one to two times this. */
const defaultTimeoutSeconds = 1800;
const bookmarkIntervalMs = 60_000;

export interface StreamParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly pump: WatchPump;
  /** For watches that look at objects or render them. */
  readonly turns: WorkTurns;
  readonly unread: UnreadBudget;
}

/** The objects that exist when a watch begins, from `at` on. */
interface Initial {
  readonly entries: readonly Entry[];
  readonly selection: Selection | undefined;
  at: number;
}

export class WatchStream implements GuardedWatch, Outlet, UnreadOutput {
  readonly kind: Kind;
  onEnd: () => void = () => {};
  readonly #parts: StreamParts;
  readonly #response: ServerResponse;
  readonly #user: string;
  readonly #options: ListOptions;
  readonly #lines: EventLines;
  readonly #check: () => void;
  readonly #timers: Timer[] = [];
  #watch: Watch | undefined;
  #initial: Initial | undefined;
  /** Pending output: encoded lines, and changes that are encoded when written. */
  #waiting: (Change | Buffer)[] = [];
  /** Index of the next pending item. */
  #next = 0;
  #behindBytes = 0;
  #queued = false;
  /** A client that resumes far behind has one turn before its watch can end. */
  #hadTurn = false;
  /** Whether the client has not read the last chunk completely. */
  #writing = false;
  #ended = false;

  constructor(
    parts: StreamParts,
    exchange: Exchange,
    kind: Kind,
    options: ListOptions,
    lines: EventLines,
    check: () => void,
  ) {
    this.kind = kind;
    this.#check = check;
    this.#parts = parts;
    this.#response = exchange.response as ServerResponse;
    this.#user = exchange.payer;
    this.#options = options;
    this.#lines = lines;
    this.#response.on('close', () => this.#closed());
    this.#response.on('error', () => this.#closed());
  }

  start(from: number, selection: Selection | undefined): void {
    this.#response.flushHeaders?.();
    const { store, clock, random } = this.#parts;
    const initial = this.#options.sendInitialEvents ?? from === 0;
    let after = from;
    if (initial) {
      const { entries, revision } = store.list(this.kind.plural);
      after = revision;
      this.#initial = { entries, selection, at: 0 };
      if (this.#options.sendInitialEvents === true)
        this.#waiting.push(this.#lines.bookmark(after, true));
      this.#queue();
    }
    try {
      this.#watch = store.watch(this.kind.plural, after, {
        changes: (changes) => this.#deliver(changes),
        ended: (error) => this.#fail(error),
      });
    } catch (error) {
      this.#fail(tooOld(error, after, store.compactedRevision));
      return;
    }
    const timeoutMs =
      (this.#options.timeoutSeconds ?? defaultTimeoutSeconds * (1 + random.unit())) * 1000;
    this.#timers.push(clock.timer(timeoutMs, () => this.end()));
    if (this.#options.allowWatchBookmarks) this.#scheduleBookmark();
  }

  #scheduleBookmark(): void {
    const timer = this.#parts.clock.timer(bookmarkIntervalMs, () => {
      if (this.#ended) return;
      // All changes up to this revision are delivered: the store notifies before it exposes a revision.
      this.#waiting.push(this.#lines.bookmark(this.#parts.store.revision, false));
      this.#queue();
      this.#scheduleBookmark();
    });
    this.#timers[1] = timer;
  }

  #deliver(changes: readonly Change[]): void {
    if (this.#ended) return;
    const waits = this.#writing || (this.#queued && this.#hadTurn);
    for (const change of changes) {
      this.#waiting.push(change);
      this.#behindBytes += bytesOf(change);
    }
    if (waits && this.#behindBytes > maxBehindBytes) this.cutOff();
    else if (!this.#writing) this.#queue();
    else this.#parts.unread.grow(this, changes.length * referenceBytes);
  }

  #queue(): void {
    if (this.#queued || this.#writing) return;
    this.#queued = true;
    if (this.#lines.arePlain) this.#parts.pump.add(this);
    else void this.#parts.turns.run(this.#user, async () => this.flush());
  }

  flush(): void {
    this.#queued = false;
    this.#hadTurn = true;
    if (this.#ended || this.#writing) return;
    const bytes = this.#nextChunk();
    if (bytes === undefined) {
      if (this.#isBehind) this.#queue();
      return;
    }
    this.#writing = true;
    this.#parts.unread.hold(
      this,
      this.#user,
      bytes.length + (this.#waiting.length - this.#next) * referenceBytes,
    );
    // It was cut off by the budget.
    if (this.#ended) return;
    this.#response.write(bytes, () => {
      this.#writing = false;
      this.#parts.unread.release(this);
      if (!this.#ended && this.#isBehind) this.#queue();
    });
  }

  get #isBehind(): boolean {
    return this.#initial !== undefined || this.#next < this.#waiting.length;
  }

  /** At least one line and about `chunkBytes`. Undefined if no visited object matches this watch. */
  #nextChunk(): Buffer | undefined {
    const lines: Buffer[] = [];
    let length = 0;
    const most = this.#lines.arePlain ? maxLooked.plain : maxLooked.costly;
    for (let looked = 0; looked < most && length < chunkBytes; looked += 1) {
      if (!this.#isBehind) break;
      const line =
        this.#initial === undefined ? this.#nextChange() : this.#nextInitial(this.#initial);
      if (line === undefined) continue;
      lines.push(line);
      length += line.length;
    }
    if (lines.length <= 1) return lines[0];
    return Buffer.concat(lines, length);
  }

  #nextInitial(initial: Initial): Buffer | undefined {
    const { entries, selection } = initial;
    const entry = entries[initial.at];
    initial.at += 1;
    if (initial.at >= entries.length) this.#initial = undefined;
    if (entry === undefined) return undefined;
    if (selection !== undefined && !selects(selection, objectOf(entry))) return undefined;
    return this.#lines.initial(entry);
  }

  #nextChange(): Buffer | undefined {
    const waiting = this.#waiting[this.#next] as Change | Buffer;
    this.#next += 1;
    if (this.#next === this.#waiting.length) {
      this.#waiting = [];
      this.#next = 0;
    }
    if (Buffer.isBuffer(waiting)) return waiting;
    this.#behindBytes -= bytesOf(waiting);
    return this.#lines.ofChange(waiting);
  }

  recheck(): void {
    if (this.#ended) return;
    try {
      this.#check();
    } catch (error) {
      this.#fail(toHansaError(error));
    }
  }

  /** The client lists again after an error, so pending output is dropped. */
  #fail(error: HansaError): void {
    if (this.#ended) return;
    this.#finish(errorLine(error));
  }

  cutOff(): void {
    this.#closed();
    this.#response.destroy();
  }

  /**
   * Ends with a bookmark if the client accepts bookmarks and has received everything, so that it can
   * resume from here. A client that is behind resumes from its last event.
   */
  end(): void {
    if (this.#ended) return;
    const last = this.#writing ? undefined : this.#nextChunk();
    const lines = last === undefined ? [] : [last];
    if (this.#options.allowWatchBookmarks && !this.#writing && !this.#isBehind)
      lines.push(this.#lines.bookmark(this.#parts.store.revision, false));
    this.#finish(Buffer.concat(lines));
  }

  /** The last bytes also have a deadline. */
  #finish(bytes: Buffer): void {
    this.#stop();
    this.#parts.unread.hold(this, this.#user, bytes.length);
    this.#response.end(bytes, () => this.#parts.unread.release(this));
  }

  #closed(): void {
    this.#stop();
    this.#parts.unread.release(this);
  }

  #stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#waiting = [];
    this.#initial = undefined;
    this.#watch?.stop();
    for (const timer of this.#timers) timer.cancel();
    this.onEnd();
  }
}

/** Approximate memory of a change. */
function bytesOf({ entry, previous }: Change): number {
  return (entry ?? previous)?.value.length ?? 0;
}

/** The message of kube-apiserver, which makes client-go list again. */
function tooOld(error: unknown, after: number, oldest: number): HansaError {
  const known = toHansaError(error);
  if (known.code !== 'HANSA_EXPIRED') return known;
  return new HansaError('HANSA_EXPIRED', `too old resource version: ${after} (${oldest})`);
}
