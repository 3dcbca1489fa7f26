// Serving watches: what is there, then every change, until the client goes, its time is up, or it
// reads too slowly.

import type { ServerResponse } from 'node:http';
import type { Kind } from '../../api/kind.ts';
import type { Clock, Random, Timer } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import type { Change, Store, Watch } from '../../core/store/store.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Selection } from './lister.ts';
import { selects } from './lister.ts';
import { objectOf } from './object-of.ts';
import type { ListOptions } from './options.ts';
import { parseResourceVersion } from './parameters.ts';
import { contentTypeOf, type Form, includeObjectOf } from './present.ts';
import { errorLine, EventLines } from './watch-events.ts';
import type { GuardedWatch } from './watch-guard.ts';
import { WatchPump } from './watch-pump.ts';

/** A watcher with more unread bytes than this is cut off; it comes back and goes on from where it was. */
const maxUnreadBytes = 8 * 1024 * 1024;
/** kube-apiserver's --min-request-timeout: a watch without a timeout lasts one to two times this. */
const defaultTimeoutSeconds = 1800;
const bookmarkIntervalMs = 60_000;

export interface WatchesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
}

export class Watches {
  readonly #parts: WatchesParts;
  readonly #pump: WatchPump;
  readonly #open = new Set<WatchStream>();

  constructor(parts: WatchesParts) {
    this.#parts = parts;
    this.#pump = new WatchPump(parts.clock);
  }

  count(plural: string): number {
    let count = 0;
    for (const stream of this.#open) if (stream.kind.plural === plural) count += 1;
    return count;
  }

  /** Those that are open, for the guard. */
  get open(): Iterable<GuardedWatch> {
    return this.#open;
  }

  /** `check` throws where the caller may no longer watch. */
  serve(
    exchange: Exchange,
    kind: Kind,
    options: ListOptions,
    selection: Selection | undefined,
    form: Form,
    check: () => void,
  ): void {
    const { clock, store } = this.#parts;
    const lines = new EventLines(
      kind,
      selection,
      form,
      includeObjectOf(exchange.query),
      () => clock.now(),
      (name) => store.facts.get(kind.plural, name),
    );
    const stream = new WatchStream(this.#parts, this.#pump, exchange, kind, options, lines, check);
    // Parsed before the answer begins, so that a bad version is a plain refusal.
    const from = options.resourceVersion === '' ? 0 : parseResourceVersion(options.resourceVersion);
    this.#open.add(stream);
    stream.onEnd = () => this.#open.delete(stream);
    (exchange.response as ServerResponse).writeHead(200, {
      'content-type': contentTypeOf(form),
      'cache-control': 'no-cache, private',
    });
    stream.start(from, selection);
  }

  /** Ends every watch in an orderly way; clients reconnect elsewhere or later. */
  drain(): void {
    for (const stream of this.#open) stream.end();
  }
}

class WatchStream implements GuardedWatch {
  readonly kind: Kind;
  onEnd: () => void = () => {};
  readonly #parts: WatchesParts;
  readonly #pump: WatchPump;
  readonly #response: ServerResponse;
  readonly #options: ListOptions;
  readonly #lines: EventLines;
  readonly #check: () => void;
  readonly #timers: Timer[] = [];
  #watch: Watch | undefined;
  #pending: Buffer[] = [];
  #queued = false;
  /** Bytes beyond `maxUnreadBytes` that the client may leave unread, until it has caught up once. */
  #allowance = 0;
  #ended = false;

  constructor(
    parts: WatchesParts,
    pump: WatchPump,
    exchange: Exchange,
    kind: Kind,
    options: ListOptions,
    lines: EventLines,
    check: () => void,
  ) {
    this.kind = kind;
    this.#check = check;
    this.#parts = parts;
    this.#pump = pump;
    this.#response = exchange.response as ServerResponse;
    this.#options = options;
    this.#lines = lines;
    this.#response.on('close', () => this.#stop());
    this.#response.on('error', () => this.#stop());
  }

  start(from: number, selection: Selection | undefined): void {
    this.#response.flushHeaders?.();
    const { store, clock, random } = this.#parts;
    const initial = this.#options.sendInitialEvents ?? from === 0;
    let after = from;
    if (initial) {
      const listing = store.list(this.kind.plural);
      after = listing.revision;
      for (const entry of listing.entries) {
        if (selection === undefined || selects(selection, objectOf(entry)))
          this.#write(this.#lines.initial(entry));
      }
      // What was there at the start may be more than any client could have read by now.
      for (const line of this.#pending) this.#allowance += line.length;
      if (this.#options.sendInitialEvents === true) this.#write(this.#lines.bookmark(after, true));
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
      this.#write(this.#lines.bookmark(this.#parts.store.revision, false));
      this.#scheduleBookmark();
    });
    this.#timers[1] = timer;
  }

  #deliver(changes: readonly Change[]): void {
    for (const change of changes) {
      const line = this.#lines.ofChange(change);
      if (line !== undefined) this.#write(line);
    }
  }

  #write(line: Buffer): void {
    this.#pending.push(line);
    if (this.#queued) return;
    this.#queued = true;
    this.#pump.add(this);
  }

  flush(): void {
    this.#queued = false;
    if (this.#ended || this.#pending.length === 0) return;
    const bytes =
      this.#pending.length === 1 ? (this.#pending[0] as Buffer) : Buffer.concat(this.#pending);
    this.#pending = [];
    if (this.#response.write(bytes)) this.#allowance = 0;
    if (this.#response.writableLength > maxUnreadBytes + this.#allowance) this.#response.destroy();
  }

  recheck(): void {
    if (this.#ended) return;
    try {
      this.#check();
    } catch (error) {
      this.#fail(toHansaError(error));
    }
  }

  #fail(error: HansaError): void {
    if (this.#ended) return;
    // No bookmark after an error: it would say that everything until now was delivered.
    this.#watch?.stop();
    this.#watch = undefined;
    this.#write(errorLine(error));
    this.end();
  }

  /** Says goodbye with a bookmark where the client takes them, so that it can go on from here. */
  end(): void {
    if (this.#ended) return;
    if (this.#options.allowWatchBookmarks && this.#watch !== undefined) {
      this.#write(this.#lines.bookmark(this.#parts.store.revision, false));
    }
    this.flush();
    this.#stop();
    this.#response.end();
  }

  #stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#pending = [];
    this.#watch?.stop();
    for (const timer of this.#timers) timer.cancel();
    this.onEnd();
  }
}

/** kube-apiserver's words, which client-go looks for to list again. */
function tooOld(error: unknown, after: number, oldest: number): HansaError {
  const known = toHansaError(error);
  if (known.code !== 'HANSA_EXPIRED') return known;
  return new HansaError('HANSA_EXPIRED', `too old resource version: ${after} (${oldest})`);
}
