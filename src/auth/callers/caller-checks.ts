// Limits how often the site asks API servers about the tokens of callers before it knows their rights. Otherwise a
// ServiceAccount without any right could make the site send requests as fast as it can. Per process, like all token
// buckets.

import { sourceOf } from '../../core/access/failure-limit.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

/**
 * For one account, and for one address. Callers with rights get their checks back, so the burst only limits how many
 * of their requests wait at once.
 */
const allowance = { burst: 1024, perSecond: 5, maxKeys: 10_000 } as const;
/** A request is checked before its body is read, and again after it. */
const checksOfRequest = 2;

export class CallerChecks {
  readonly #accounts: TokenBuckets;
  readonly #addresses: TokenBuckets;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#accounts = new TokenBuckets({ clock, ...allowance });
    this.#addresses = new TokenBuckets({ clock, ...allowance });
  }

  /** Before a check that may ask an API server. Throws HANSA_TOO_MANY_REQUESTS. */
  allow(account: string, address: string | undefined): void {
    const wait =
      this.#accounts.waitSeconds(account) ?? this.#addresses.waitSeconds(sourceOf(address ?? ''));
    if (wait === undefined) return;
    throw new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `Too many requests of ${account} or its address without the right to ask for token reviews. Try again in ${wait} s, or ask an admin for the role token-reviewer.`,
      { details: { retryAfterSeconds: wait } },
    );
  }

  /** An API server is asked. */
  asked(account: string, address: string | undefined): void {
    this.#charge(account, address, 1);
  }

  /** The caller has the right that its request needs. */
  authorized(account: string, address: string | undefined): void {
    this.#charge(account, address, -checksOfRequest);
  }

  #charge(account: string, address: string | undefined, cost: number): void {
    this.#accounts.charge(account, cost);
    this.#addresses.charge(sourceOf(address ?? ''), cost);
  }
}
