// The error of a review without a verdict: HANSA_UNAVAILABLE, with the class of the reason. It names the
// cluster and what to do, and never the token.

import { HansaError } from '../../core/errors/error.ts';

/**
 * For a cluster of a peer, the site of the peer stands for the API server.
 *
 * - `keys`: the keys of the cluster are unknown or too old.
 * - `unreachable`: its API server did not answer, or answered that it cannot.
 * - `throttled`: its API server answered 429.
 * - `busy`: too many reviews wait for its API server.
 * - `credential`: its API server refused the credential of this site, or there is none. A peer: it denied the cluster, or is not trusted.
 * - `answer`: its API server gave an answer that this site does not accept.
 * - `changed`: the Cluster changed or went during the review.
 */
export const uncheckedReasons = [
  'keys',
  'unreachable',
  'throttled',
  'busy',
  'credential',
  'answer',
  'changed',
] as const;

export type UncheckedReason = (typeof uncheckedReasons)[number];

export class UncheckedError extends HansaError {
  readonly reason: UncheckedReason;
  /** Why, and what to do, as sentences. */
  readonly why: string;

  constructor(
    reason: UncheckedReason,
    clusterName: string,
    why: string,
    options: {
      readonly cause?: unknown;
      /**
       * Only for overload: client-go repeats a request ten times where it is set, and its caller should
       * rather learn at once that a cluster cannot be asked.
       */
      readonly retryAfterSeconds?: number;
    } = {},
  ) {
    const { retryAfterSeconds } = options;
    super('HANSA_UNAVAILABLE', `Cannot review a token of cluster ${clusterName}: ${why}`, {
      cause: options.cause,
      ...(retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } }),
    });
    this.reason = reason;
    this.why = why;
  }
}
