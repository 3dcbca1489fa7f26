// The answer of a site to a peer that asks about a token: a TokenReview, and the cluster that it is about.

import { isRecord } from '../../core/json/is-record.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { UnacceptableAnswer } from '../forward/upstream-answer.ts';

export const clusterReviewsPath = '/hansa/federation/v1/clusters/{cluster}/tokenreviews';

/** A TokenReview with 256 audiences, which it has twice. */
const maxValues = 4_000;

/** `review` is a TokenReview in JSON. */
export function reviewMessage(cluster: string, review: string): string {
  return `{"cluster":${JSON.stringify(cluster)},"review":${review}}`;
}

/** The TokenReview as JSON. Throws UnacceptableAnswer, also for an answer about another cluster. */
export function readReviewMessage(body: Buffer, asked: string): Buffer {
  let parsed: unknown;
  try {
    parsed = parseBoundedJson(body, maxValues);
  } catch {
    throw new UnacceptableAnswer('the answer is not JSON, or has too many values');
  }
  if (!isRecord(parsed)) throw new UnacceptableAnswer('the answer is not a JSON object');
  const { cluster, review } = parsed;
  if (cluster !== asked) {
    throw new UnacceptableAnswer(
      `it is about another cluster than ${asked}, which this site asked about`,
    );
  }
  if (!isRecord(review)) throw new UnacceptableAnswer('the answer has no TokenReview');
  return Buffer.from(JSON.stringify(review));
}
