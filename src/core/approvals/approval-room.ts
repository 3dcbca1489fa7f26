// How many Approvals a site and a user can have. Requests and reviews have room of their own: reviews stay long, and
// no request waits for one.

import type { Approval } from '../../api/kinds/approval.ts';
import type { Clock } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { TokenBuckets } from '../limits/token-buckets.ts';
import { hasExpired } from './decision-rules.ts';

/** Requests in the store, decided ones included. The controller deletes old ones. */
const maxRequests = 2000;
/** Reviews in the store. */
const maxReviews = 2000;
/** Both. Replicas that do not see each other's last commits cannot pass it either. */
export const maxApprovals = maxRequests + maxReviews;
/** Pending requests of one user. */
export const maxPendingOfUser = 20;
/** Pending reviews of one user: as many as a site has peers, and half the room, so that others have room too. */
export const maxReviewsOfUser = 1000;
/** New requests of one user: a burst, then one every minute. */
const requestBurst = 20;
const requestsPerSecond = 1 / 60;
const maxRequesters = 10_000;

/** After this time, a caller may try again. Decisions of people take minutes. */
const retryAfterSeconds = 60;

export class ApprovalRoom {
  readonly #requests: TokenBuckets;

  constructor(clock: Clock) {
    this.#requests = new TokenBuckets({
      clock,
      burst: requestBurst,
      perSecond: requestsPerSecond,
      maxKeys: maxRequesters,
    });
  }

  /** Throws HANSA_TOO_MANY_REQUESTS. Otherwise counts a new request of the user. */
  takeRequest(all: readonly Approval[], user: string, nowMs: number): void {
    const requests = all.filter(({ spec }) => spec.review !== true);
    const pending = requests.filter(
      (one) => one.spec.requester.user === user && isPendingRequest(one, nowMs),
    ).length;
    if (pending >= maxPendingOfUser) {
      throw tooMany(
        `${user} has ${pending} pending requests. Wait until an approver has decided some`,
      );
    }
    if (requests.length >= maxRequests) {
      throw tooMany(`the site has ${maxRequests} Approvals. Decide or delete some`);
    }
    const wait = this.#requests.take(user);
    if (wait !== undefined) {
      throw tooMany(`${user} requested too many approvals. Try again in ${wait} s`, wait);
    }
  }

  /** Throws HANSA_TOO_MANY_REQUESTS. */
  checkReview(all: readonly Approval[], user: string): void {
    const reviews = all.filter(({ spec }) => spec.review === true);
    const pending = reviews.filter(
      ({ spec, status }) => spec.requester.user === user && status?.state === 'pending',
    ).length;
    if (pending >= maxReviewsOfUser) {
      throw tooMany(
        `${pending} emergencies of ${user} wait for a review. Another user must decide some`,
      );
    }
    if (reviews.length >= maxReviews) {
      throw tooMany(`the site has ${maxReviews} reviews. Decide or delete some`);
    }
  }
}

export function isPendingRequest({ spec, status }: Approval, nowMs: number): boolean {
  return spec.review !== true && status?.state === 'pending' && !hasExpired(spec, nowMs);
}

function tooMany(why: string, seconds = retryAfterSeconds): HansaError {
  return new HansaError('HANSA_TOO_MANY_REQUESTS', `Cannot request an approval: ${why}.`, {
    details: { retryAfterSeconds: seconds },
  });
}
