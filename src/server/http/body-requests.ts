// Serves requests of routes that declare `readsBody`. Most bodies arrive together with the headers. Then the
// site authenticates, authorizes, reads the body and answers in one turn of the event loop, without promises.
//
// Requests that arrive together are handled together, and their answers are sent together. A write to a socket
// wakes up the client: one after each signature verification took a quarter of the CPU time of a review.

import type { Caller } from '../../core/access/identity.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { type HansaError, toHansaError } from '../../core/errors/error.ts';
import type { ApiCheck } from '../../core/plane/route-access.ts';
import type { OpenStreams } from '../listeners/stranger-limits.ts';
import type { Answers } from './answers.ts';
import { type Exchange, readBody, refuseLongBody, type Response, takeBody } from './exchange.ts';
import { identified, refuseImpersonation } from './identified.ts';
import { respondPlane } from './plane-exchange.ts';
import type { Room } from './room.ts';
import type { Route } from './routes.ts';
import { refuseForeignPage, requireJson } from './web-pages.ts';

/** How long one turn of the event loop handles requests. The others then wait for the next turn. */
const maxTurnMs = 4;

export interface BodyRequestsParts {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly room: Room;
  readonly strangers: OpenStreams | undefined;
  readonly answers: Answers;
  readonly mayRecord: ((caller: Caller) => void) | undefined;
  /** Answers with an error. */
  readonly refuse: (exchange: Exchange, method: string, error: HansaError) => void;
  /** Counts an answered request. */
  readonly answered: (response: Response, method: string, startedAt: number) => void;
  /** Ends a request that could not even be refused. */
  readonly failed: (response: Response, error: unknown) => void;
}

type CheckedRoute = Route & { readonly check: ApiCheck };

interface Served {
  readonly exchange: Exchange;
  readonly route: CheckedRoute;
  readonly limit: number;
  readonly method: string;
  readonly startedAt: number;
  /** Whose place in the room the request holds. */
  user: string | undefined;
  /** Why the caller may not ask. */
  refusal: Error | undefined;
}

/** One to a listener. */
export class BodyRequests {
  readonly #parts: BodyRequestsParts;
  /** Requests whose headers arrived in this turn of the event loop, after those that an earlier turn left. */
  #arriving: Served[] = [];

  constructor(parts: BodyRequestsParts) {
    this.#parts = parts;
  }

  serve(
    exchange: Exchange,
    route: CheckedRoute,
    limit: number,
    method: string,
    startedAt: number,
  ): void {
    const served: Served = {
      exchange,
      route,
      limit,
      method,
      startedAt,
      user: undefined,
      refusal: undefined,
    };
    try {
      const isIn = identified(exchange, this.#parts.room, this.#parts.strangers);
      if (isIn === true) this.#admit(served);
      else if (isIn !== false) void this.#admitLater(served, isIn);
    } catch (error) {
      this.#refuse(served, error);
    }
  }

  async #admitLater(served: Served, waiting: Promise<boolean>): Promise<void> {
    try {
      if (await waiting) this.#admit(served);
    } catch (error) {
      this.#refuse(served, error);
    }
  }

  /** The parser reads the body after the headers, in the same turn. So a refusal that waits for it keeps the connection. */
  #admit(served: Served): void {
    try {
      this.#check(served);
    } catch (error) {
      served.refusal = toHansaError(error);
    }
    this.#arriving.push(served);
    if (this.#arriving.length === 1) setImmediate(this.#readBodies);
  }

  #check(served: Served): void {
    const { exchange, route, limit } = served;
    refuseForeignPage(exchange);
    refuseImpersonation(exchange);
    const { caller } = exchange;
    this.#parts.room.take(caller.user);
    served.user = caller.user;
    if (route.rowless !== true) this.#parts.mayRecord?.(caller);
    route.check(caller, exchange);
    if (route.checksMediaType !== true) requireJson(exchange.request);
    refuseLongBody(exchange, limit);
  }

  readonly #readBodies = (): void => {
    const { clock } = this.#parts;
    const arriving = this.#arriving;
    this.#arriving = [];
    const untilMs = clock.monotonic() + maxTurnMs;
    let count = 0;
    while (count < arriving.length) {
      this.#readBody(arriving[count++] as Served);
      if (clock.monotonic() >= untilMs) break;
    }
    for (let at = 0; at < count; at++) this.#send(arriving[at] as Served);
    if (count === arriving.length) return;
    this.#arriving = [...arriving.slice(count), ...this.#arriving];
    setImmediate(this.#readBodies);
  };

  #readBody(served: Served): void {
    const { exchange, limit, refusal } = served;
    try {
      if (refusal !== undefined) throw refusal;
      const body = takeBody(exchange, limit);
      if (body === undefined) {
        void this.#awaitBody(served);
        return;
      }
      // The caller was authenticated and authorized when the headers arrived.
      exchange.content = body;
      exchange.holdsAnswer = true;
      this.#handle(served);
    } catch (error) {
      this.#refuse(served, error);
    }
  }

  #send(served: Served): void {
    const { exchange } = served;
    const { answer } = exchange;
    if (answer === undefined) return;
    try {
      respondPlane(exchange, answer);
    } catch (error) {
      this.#refuse(served, error);
      return;
    }
    this.#end(served);
  }

  async #awaitBody(served: Served): Promise<void> {
    const { exchange, route, limit } = served;
    exchange.authorize = (again) => route.check(again.caller, again);
    try {
      exchange.content = await readBody(exchange, limit);
      this.#handle(served);
    } catch (error) {
      this.#refuse(served, error);
    }
  }

  #handle(served: Served): void {
    const { exchange, route } = served;
    const answering = route.handle(exchange, exchange.params);
    if (answering instanceof Promise) void this.#awaitAnswer(served, answering);
    else if (exchange.answer === undefined) this.#end(served);
  }

  async #awaitAnswer(served: Served, answering: Promise<void>): Promise<void> {
    try {
      await answering;
    } catch (error) {
      this.#refuse(served, error);
      return;
    }
    this.#end(served);
  }

  #refuse(served: Served, error: unknown): void {
    const { exchange, method } = served;
    try {
      this.#parts.refuse(exchange, method, toHansaError(error));
    } catch (failure) {
      this.#parts.failed(exchange.response, failure);
    }
    this.#end(served);
  }

  #end(served: Served): void {
    const { exchange, method, startedAt, user } = served;
    const { room, answers, answered } = this.#parts;
    served.user = undefined;
    if (user !== undefined) answers.hold(exchange.response, user, () => room.give(user));
    answered(exchange.response, method, startedAt);
  }
}
