// One watch: what is there, then every change, until the client goes, its time is up, or it reads too
// slowly. Lines are made as the client reads them: what waits for a slow client are references to
// objects and changes that the store has anyway, and one chunk of bytes.

import type { ServerResponse } from 'node:http';
import type { Kind } from '../../api/kind.ts';
import type { Clock, Random, Timer } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import type { Change, Entry, Store, Watch } from '../../core/store/store.ts';
import type { Exchange } from '../http/exchange.ts';
import { type Selection, selects } from './lister.ts';
import { objectOf } from './object-of.ts';
import type { ListOptions } from './options.ts';
import type { UnreadWatch, UnreadWatches } from './unread-watches.ts';
import { errorLine, type EventLines } from './watch-events.ts';
import type { GuardedWatch } from './watch-guard.ts';
import type { Outlet, WatchPump } from './watch-pump.ts';

/** A watch that is behind by more changes than this is cut off; its client comes back and goes on from where it was. */
const maxBehindBytes = 8 * 1024 * 1024;
/** What is written at once. A client that reads a kilobyte a second stays within the usual deadline of a minute. */
const chunkBytes = 32 * 1024;
/** Objects that are looked at in one turn: a selector may match none of very many. */
const maxLooked = 256;
/** What it costs to remember that a change is to be sent. */
const referenceBytes = 64;
/** kube-apiserver's --min-request-timeout: a watch without a timeout lasts one to two times this. */
const defaultTimeoutSeconds = 1800;
const bookmarkIntervalMs = 60_000;

export interface StreamParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly pump: WatchPump;
  readonly unread: UnreadWatches;
}

/** The objects that are there when a watch begins, from `at` on. */
interface Initial {
  readonly entries: readonly Entry[];
  readonly selection: Selection | undefined;
  at: number;
}

export class WatchStream implements GuardedWatch, Outlet, UnreadWatch {
  readonly kind: Kind;
  onEnd: () => void = () => {};
  readonly #parts: StreamParts;
  readonly #response: ServerResponse;
  readonly #options: ListOptions;
  readonly #lines: EventLines;
  readonly #check: () => void;
  readonly #timers: Timer[] = [];
  #watch: Watch | undefined;
  #initial: Initial | undefined;
  /** Changes that become lines when they are written, and lines. */
  #waiting: (Change | Buffer)[] = [];
  /** What waits is sent from here on. */
  #next = 0;
  #behindBytes = 0;
  #queued = false;
  /** A chunk was written and the client has not taken all of it yet. */
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
      // Everything up to this revision was delivered: the store calls back before it shows a revision.
      this.#waiting.push(this.#lines.bookmark(this.#parts.store.revision, false));
      this.#queue();
      this.#scheduleBookmark();
    });
    this.#timers[1] = timer;
  }

  #deliver(changes: readonly Change[]): void {
    if (this.#ended) return;
    for (const change of changes) {
      this.#waiting.push(change);
      this.#behindBytes += bytesOf(change);
    }
    if (!this.#writing) this.#queue();
    else if (this.#behindBytes > maxBehindBytes) this.cutOff();
    else this.#parts.unread.grow(this, changes.length * referenceBytes);
  }

  #queue(): void {
    if (this.#queued || this.#writing) return;
    this.#queued = true;
    this.#parts.pump.add(this);
  }

  flush(): void {
    this.#queued = false;
    if (this.#ended || this.#writing) return;
    const bytes = this.#nextChunk();
    if (bytes === undefined) {
      if (this.#isBehind) this.#queue();
      return;
    }
    this.#writing = true;
    this.#parts.unread.hold(
      this,
      bytes.length + (this.#waiting.length - this.#next) * referenceBytes,
    );
    this.#response.write(bytes, () => {
      this.#writing = false;
      this.#parts.unread.release(this);
      if (!this.#ended && this.#isBehind) this.#queue();
    });
  }

  get #isBehind(): boolean {
    return this.#initial !== undefined || this.#next < this.#waiting.length;
  }

  /** At least one line and about `chunkBytes`. Undefined where what was looked at is not for this watch. */
  #nextChunk(): Buffer | undefined {
    const lines: Buffer[] = [];
    let length = 0;
    for (let looked = 0; looked < maxLooked && length < chunkBytes; looked += 1) {
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

  /** The client lists again after an error, so what waits is not sent. */
  #fail(error: HansaError): void {
    if (this.#ended) return;
    this.#finish(errorLine(error));
  }

  cutOff(): void {
    this.#closed();
    this.#response.destroy();
  }

  /**
   * Says goodbye with a bookmark where the client takes them and has everything before it, so that it
   * can go on from here. One that is behind goes on from the last event that it has seen.
   */
  end(): void {
    if (this.#ended) return;
    const last = this.#writing ? undefined : this.#nextChunk();
    const lines = last === undefined ? [] : [last];
    if (this.#options.allowWatchBookmarks && !this.#writing && !this.#isBehind)
      lines.push(this.#lines.bookmark(this.#parts.store.revision, false));
    this.#finish(Buffer.concat(lines));
  }

  /** The last bytes have their deadline, too. */
  #finish(bytes: Buffer): void {
    this.#stop();
    this.#parts.unread.hold(this, bytes.length);
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

/** About what the change keeps in memory. */
function bytesOf({ entry, previous }: Change): number {
  return (entry ?? previous)?.value.length ?? 0;
}

/** kube-apiserver's words, which client-go looks for to list again. */
function tooOld(error: unknown, after: number, oldest: number): HansaError {
  const known = toHansaError(error);
  if (known.code !== 'HANSA_EXPIRED') return known;
  return new HansaError('HANSA_EXPIRED', `too old resource version: ${after} (${oldest})`);
}
