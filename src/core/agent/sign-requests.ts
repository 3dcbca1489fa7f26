// The signing requests of an agent that wait for the site: at most some are in flight, each has a
// timeout, and all fail with the stream.

import type { MessageInitShape } from '@bufbuild/protobuf';
import type { SignRequestSchema, SignResponse } from '../../../proto/gen/agent_pb.ts';
import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { maxUnansweredSignRequests } from './limits.ts';

/** A request without its id. */
export type SignContent = Omit<
  Exclude<MessageInitShape<typeof SignRequestSchema>, { $typeName: string }>,
  'id'
>;

/** What the proofs of a request are bound to. */
export interface SignBinding {
  /** RFC 5705: bytes that only the two ends of this connection know. */
  readonly exporter: Buffer;
  /** The id of the request. */
  readonly request: bigint;
}

/** Called when the request is sent. */
export type BuildSignRequest = (binding: SignBinding) => SignContent;

/** More than an agent needs for all of its entries at once. */
const mostWaiting = 1_000;
/** The site waits for its disk. After this time it is overloaded. */
const answerWithinMs = 30_000;

interface Waiting {
  readonly build: BuildSignRequest;
  readonly resolve: (response: SignResponse) => void;
  readonly reject: (error: unknown) => void;
  timer: Timer;
}

export class SignRequests {
  readonly #clock: Clock;
  readonly #send: (id: bigint, build: BuildSignRequest) => void;
  readonly #late: () => void;
  /**
   * Unanswered at the site, which ends the stream where there are too many. So a request stays here when
   * nobody waits for it any more; its value is then undefined.
   */
  readonly #inFlight = new Map<bigint, Waiting | undefined>();
  readonly #queue = new Set<Waiting>();
  #lastId = 0n;

  /** `late` is called when the site did not answer a request in time. */
  constructor(clock: Clock, send: (id: bigint, build: BuildSignRequest) => void, late: () => void) {
    this.#clock = clock;
    this.#send = send;
    this.#late = late;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** `isOpen`: whether it can be sent now. Otherwise it waits for `flush`. */
  add(build: BuildSignRequest, isOpen: boolean): Promise<SignResponse> {
    if (this.#queue.size >= mostWaiting) {
      return Promise.reject(
        new HansaError('HANSA_UNAVAILABLE', 'Too many signing requests wait for the site.'),
      );
    }
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        build,
        resolve,
        reject,
        timer: this.#clock.timer(answerWithinMs, () => this.#timeOut(waiting)),
      };
      this.#queue.add(waiting);
      if (isOpen) this.flush();
    });
  }

  /** Sends what waits. */
  flush(): void {
    for (const waiting of this.#queue) {
      if (this.#inFlight.size >= maxUnansweredSignRequests) return;
      this.#queue.delete(waiting);
      const id = ++this.#lastId;
      this.#inFlight.set(id, waiting);
      try {
        this.#send(id, waiting.build);
      } catch (error) {
        this.#inFlight.delete(id);
        settle(waiting).reject(error);
      }
    }
  }

  /** A response that nobody waits for is ignored. */
  answered(response: SignResponse): void {
    const waiting = this.#inFlight.get(response.id);
    this.#inFlight.delete(response.id);
    if (waiting !== undefined) settle(waiting).resolve(response);
  }

  /** The stream ended: the site may have signed, but the answer is lost. */
  failSent(error: unknown): void {
    const all = [...this.#inFlight.values()];
    this.#inFlight.clear();
    for (const waiting of all) {
      if (waiting !== undefined) settle(waiting).reject(error);
    }
  }

  /** There will be no stream soon. */
  failWaiting(error: unknown): void {
    const all = [...this.#queue];
    this.#queue.clear();
    for (const waiting of all) settle(waiting).reject(error);
  }

  #timeOut(waiting: Waiting): void {
    this.#queue.delete(waiting);
    let wasSent = false;
    for (const [id, one] of this.#inFlight) {
      if (one !== waiting) continue;
      this.#inFlight.set(id, undefined);
      wasSent = true;
    }
    waiting.reject(
      new HansaError(
        'HANSA_UNAVAILABLE',
        `The site did not sign within ${answerWithinMs / 1000} s.`,
      ),
    );
    if (wasSent) this.#late();
  }
}

function settle(waiting: Waiting): Waiting {
  waiting.timer.cancel();
  return waiting;
}
