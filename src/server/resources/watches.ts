// Opens watch streams, tracks the open ones, and ends them when the site drains.

import type { ServerResponse } from 'node:http';
import type { Kind } from '../../api/kind.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import type { Store } from '../../core/store/store.ts';
import type { Answers } from '../http/answers.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Selection } from './lister.ts';
import type { ListOptions } from './options.ts';
import { parseResourceVersion } from './parameters.ts';
import { contentTypeOf, type Form, includeObjectOf } from './present.ts';
import { EventLines } from './watch-events.ts';
import type { GuardedWatch } from './watch-guard.ts';
import { WatchPump } from './watch-pump.ts';
import { type StreamParts, WatchStream } from './watch-stream.ts';

export interface WatchesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly answers: Pick<Answers, 'unread' | 'turns'>;
}

export class Watches {
  readonly #parts: WatchesParts;
  readonly #around: StreamParts;
  readonly #open = new Set<WatchStream>();

  constructor(parts: WatchesParts) {
    this.#parts = parts;
    const { unread, turns } = parts.answers;
    this.#around = { ...parts, pump: new WatchPump(parts.clock), unread, turns };
  }

  count(plural: string): number {
    let count = 0;
    for (const stream of this.#open) if (stream.kind.plural === plural) count += 1;
    return count;
  }

  /** The open watches, for the guard. */
  get open(): Iterable<GuardedWatch> {
    return this.#open;
  }

  /** `check` throws if the caller may no longer watch. */
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
    const stream = new WatchStream(this.#around, exchange, kind, options, lines, check);
    // Parsed before the response begins, so that a bad version gives a plain error.
    const from = options.resourceVersion === '' ? 0 : parseResourceVersion(options.resourceVersion);
    this.#open.add(stream);
    stream.onEnd = () => this.#open.delete(stream);
    (exchange.response as ServerResponse).writeHead(200, {
      'content-type': contentTypeOf(form),
      'cache-control': 'no-cache, private',
    });
    stream.start(from, selection);
  }

  /** Ends every watch in an orderly way. Clients reconnect. */
  drain(): void {
    for (const stream of this.#open) stream.end();
  }
}
