// The body of a list, rendered while the client reads it.

import type { Clock } from '../../core/clock/clock.ts';
import { stepMs } from '../../core/limits/work-turns.ts';
import type { AnswerBody } from '../http/answers.ts';

/** The beginning of a JSON object whose last field is the list `field`. */
export function listHead(object: object, field: string): string {
  return `${JSON.stringify(object).slice(0, -1)},"${field}":[`;
}

/** kube-apiserver ends JSON with a line feed, for curl users. */
export const listEnd = Buffer.from(']}\n');

/** The clock is read for every eighth item only. */
const lookEvery = 8;
/** Memory for the reference to an item. */
const referenceBytes = 8;

export class ListBody<T> implements AnswerBody {
  readonly keptBytes: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #head: string;
  readonly #items: readonly T[];
  readonly #render: (item: T) => Buffer;
  #at = -1;

  constructor(
    clock: Pick<Clock, 'monotonic'>,
    head: string,
    items: readonly T[],
    render: (item: T) => Buffer,
  ) {
    this.#clock = clock;
    this.#head = head;
    this.#items = items;
    this.#render = render;
    this.keptBytes = items.length * referenceBytes;
  }

  next(bytes: number): Buffer | undefined {
    const items = this.#items;
    if (this.#at > items.length) return undefined;
    const parts: Buffer[] = [];
    let length = 0;
    const untilMs = this.#clock.monotonic() + stepMs;
    while (length < bytes && this.#at <= items.length) {
      const part = this.#part(this.#at);
      if (this.#at > 0 && this.#at < items.length) parts.push(comma);
      parts.push(part);
      length += part.length;
      this.#at += 1;
      if (this.#at % lookEvery === 0 && this.#clock.monotonic() >= untilMs) break;
    }
    return Buffer.concat(parts);
  }

  #part(at: number): Buffer {
    if (at === -1) return Buffer.from(this.#head);
    return at === this.#items.length ? listEnd : this.#render(this.#items[at] as T);
  }
}

const comma = Buffer.from(',');
