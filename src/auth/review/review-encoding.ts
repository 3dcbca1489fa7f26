// The two encodings of a TokenReview, and which of them a request uses.

import { HansaError } from '../../core/errors/error.ts';
import { protobufMediaType } from '../../core/kube/protobuf.ts';
import { mediaRanges, mediaTypeOf } from '../../core/plane/media-types.ts';

export type ReviewEncoding = 'json' | 'protobuf';

export const reviewMediaTypes: Readonly<Record<ReviewEncoding, string>> = {
  json: 'application/json',
  protobuf: protobufMediaType,
};

const offered = Object.values(reviewMediaTypes).join(', ');

/** Throws HANSA_UNSUPPORTED_MEDIA_TYPE. */
export function bodyEncoding(contentType: string | undefined): ReviewEncoding {
  if (contentType === 'application/json') return 'json';
  const mediaType = mediaTypeOf(contentType);
  if (mediaType === 'application/json') return 'json';
  if (mediaType === protobufMediaType) return 'protobuf';
  throw new HansaError(
    'HANSA_UNSUPPORTED_MEDIA_TYPE',
    `the body of the request was in an unknown format - accepted media types include: ${offered}`,
  );
}

/** JSON unless the caller prefers protobuf. Throws HANSA_NOT_ACCEPTABLE. */
export function answerEncoding(accept: string | undefined): ReviewEncoding {
  if (accept === undefined || accept === '' || accept === 'application/json' || accept === '*/*')
    return 'json';
  if (accept === protobufMediaType) return 'protobuf';
  for (const { type, parameters } of mediaRanges(accept)) {
    // A table, or metadata only: these make no sense for a review.
    if (parameters.has('as')) continue;
    if (type === 'application/json' || type === '*/*' || type === 'application/*') return 'json';
    if (type === protobufMediaType) return 'protobuf';
  }
  throw new HansaError(
    'HANSA_NOT_ACCEPTABLE',
    `only the following media types are accepted: ${offered}`,
  );
}
