// Decides whether this site asks the API server of one cluster now. A dead, overloaded or refusing API server
// costs one request from time to time, and all other reviews of its tokens get HTTP 503 at once.

import type { Clock } from '../../core/clock/clock.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { UncheckedError } from './unchecked-error.ts';
import { upstreamOf } from './upstream-failure.ts';

/** Consecutive failures that close the gate. One lost connection does not. */
const failuresToClose = 3;
const firstPauseMs = 500;
/** An API server that is back is used again after this long at the latest. */
const longestPauseMs = 5_000;
const longestThrottleSeconds = 60;

/** The right to send one request. The holder reports its result to the gate exactly once. */
export interface Pass {
  /** The one request that a closed gate lets through after each pause. */
  readonly isProbe: boolean;
}

const ordinary: Pass = { isProbe: false };
const probe: Pass = { isProbe: true };

export class UpstreamGate {
  readonly #clock: Clock;
  readonly #cluster: Pick<ReviewedCluster, 'name' | 'peer'>;
  /** Set while the gate is closed. */
  #closedFor: UncheckedError | undefined;
  #failures = 0;
  #pauseMs = firstPauseMs;
  /** Monotonic. */
  #closedUntil = 0;
  #throttledUntil = 0;
  #isProbing = false;

  constructor(clock: Clock, cluster: Pick<ReviewedCluster, 'name' | 'peer'>) {
    this.#clock = clock;
    this.#cluster = cluster;
  }

  get isClosed(): boolean {
    return this.#closedFor !== undefined;
  }

  /** Why a request makes no sense now; undefined where it does. */
  problem(): UncheckedError | undefined {
    const now = this.#clock.monotonic();
    if (now < this.#throttledUntil) return this.#throttling(this.#throttledUntil - now);
    if (this.#closedFor === undefined) return undefined;
    // The same error for all, because a dead cluster must cost next to nothing.
    return now >= this.#closedUntil && !this.#isProbing ? undefined : this.#closedFor;
  }

  /** Throws `problem()`. */
  enter(): Pass {
    const problem = this.problem();
    if (problem !== undefined) throw problem;
    if (this.#closedFor === undefined) return ordinary;
    this.#isProbing = true;
    return probe;
  }

  /** The API server answered, so it is alive, whatever it said. */
  reached({ isProbe }: Pass): void {
    if (isProbe) this.#isProbing = false;
    this.#failures = 0;
    this.#closedFor = undefined;
    this.#pauseMs = firstPauseMs;
  }

  failed({ isProbe }: Pass, failure: UncheckedError): void {
    if (isProbe) this.#isProbing = false;
    // Requests that were under way when the gate closed say nothing new.
    else if (this.#closedFor !== undefined || ++this.#failures < failuresToClose) return;
    this.#closedFor = failure;
    this.#closedUntil = this.#clock.monotonic() + this.#pauseMs;
    this.#pauseMs = Math.min(longestPauseMs, this.#pauseMs * 2);
  }

  /** `retryAfter` is the header of that name. Its other form, a date, counts as one second. */
  throttled(pass: Pass, retryAfter: string | undefined): UncheckedError {
    this.reached(pass);
    const seconds = /^\d{1,9}$/.test(retryAfter ?? '') ? Number(retryAfter) : 1;
    const ms = 1000 * Math.min(longestThrottleSeconds, Math.max(1, seconds));
    this.#throttledUntil = this.#clock.monotonic() + ms;
    return this.#throttling(ms);
  }

  #throttling(ms: number): UncheckedError {
    const retryAfterSeconds = Math.ceil(ms / 1000);
    return new UncheckedError(
      'throttled',
      this.#cluster.name,
      `${upstreamOf(this.#cluster)} answered that this site asks too often. Try again in ${retryAfterSeconds} seconds. If it happens often, raise validation.maxRevocationLagSeconds of the Cluster.`,
      { retryAfterSeconds },
    );
  }
}
