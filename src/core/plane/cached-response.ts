// A response that is the same for all callers until its content changes. It is built once, with an
// ETag, so that clients that already have it get a 304.

import { createHash } from 'node:crypto';
import type { AnyRequest, PlaneResponse } from './route.ts';

export interface CachedResponseOptions {
  readonly contentType: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export class CachedResponse {
  readonly #etag: string;
  readonly #whole: PlaneResponse;
  readonly #unchanged: PlaneResponse;

  constructor(body: Buffer, options: CachedResponseOptions) {
    const { contentType } = options;
    this.#etag = etagOf(body);
    const headers = {
      ...options.headers,
      etag: this.#etag,
      // RFC 9110 §8.6: the content length of a 304 is that of the 200.
      'content-length': String(body.length),
    };
    this.#whole = { status: 200, contentType, body, headers, repeats: true };
    this.#unchanged = { status: 304, contentType, body: '', headers, repeats: true };
  }

  to({ headers }: Pick<AnyRequest, 'headers'>): PlaneResponse {
    const ifNoneMatch = headers['if-none-match'];
    const known = typeof ifNoneMatch === 'string' && matches(ifNoneMatch, this.#etag);
    return known ? this.#unchanged : this.#whole;
  }
}

/** A strong validator (RFC 9110 §8.8.3). */
function etagOf(body: Buffer): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
}

/** RFC 9110 §13.1.2: a list of validators, compared weakly, or `*` for any. */
function matches(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch.trim() === '*') return true;
  return ifNoneMatch.split(',').some((each) => each.trim().replace(/^W\//, '') === etag);
}
