// The bundle endpoint (SPIFFE Federation §5): this site's bundle for whoever asks, by https_spiffe on
// the federation listener, which presents the site's SVID, and by https_web on the web listener.
// Public by nature: no certificate is asked for, and nothing of the request is used but its validator.

import type { BundlePublisher, PublishedBundle } from '../core/identity/published-bundle.ts';
import type { PlaneResponse, PlaneRoute } from '../core/plane/plane.ts';

/** The second is where some clients of SPIFFE look. */
const paths = ['/', '/webapi/spiffe/bundle.json'] as const;

/** The same for whoever may speak to the API, so that `hansa trust` need not reach the other listener. */
const apiPath = '/hansa/v1/trust/bundle';

/** What the API answers. */
export interface OwnBundle {
  readonly trustDomain: string;
  /** The document as it is published. */
  readonly bundle: string;
}

export function bundleRoutes(publisher: BundlePublisher): readonly PlaneRoute[] {
  let answers: Answers | undefined;
  const answersOf = (published: PublishedBundle): Answers => {
    if (answers?.published !== published) answers = new Answers(published);
    return answers;
  };
  const handle: PlaneRoute['handle'] = ({ headers }) => {
    const published = publisher.current();
    return published instanceof Promise
      ? published.then((made) => answersOf(made).to(headers['if-none-match']))
      : answersOf(published).to(headers['if-none-match']);
  };
  return [
    ...(['federation', 'web'] as const).flatMap((listener) =>
      paths.map((path) => ({ listener, method: 'GET', path, handle }) as const),
    ),
    {
      listener: 'api',
      method: 'GET',
      path: apiPath,
      handle: async () => {
        const { bundle, document } = await publisher.current();
        const own: OwnBundle = {
          trustDomain: bundle.trustDomain.name,
          bundle: document.toString('utf8'),
        };
        return { status: 200, contentType: 'application/json', body: JSON.stringify(own) };
      },
    },
  ];
}

/** The two that there are for one bundle, made once: most of what sites ask each other is this. */
class Answers {
  readonly published: PublishedBundle;
  readonly #whole: PlaneResponse;
  readonly #unchanged: PlaneResponse;

  constructor(published: PublishedBundle) {
    this.published = published;
    const { document, etag } = published;
    // RFC 9110 §8.6: what a 304 says of the length is said of the 200.
    const headers = { etag, 'content-length': String(document.length) };
    const contentType = 'application/json';
    this.#whole = { status: 200, contentType, body: document, headers };
    this.#unchanged = { status: 304, contentType, body: '', headers };
  }

  to(ifNoneMatch: string | readonly string[] | undefined): PlaneResponse {
    const known = typeof ifNoneMatch === 'string' && matches(ifNoneMatch, this.published.etag);
    return known ? this.#unchanged : this.#whole;
  }
}

/** RFC 9110 §13.1.2: a list of validators, compared weakly, or `*` for whatever there is. */
function matches(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch.trim() === '*') return true;
  return ifNoneMatch.split(',').some((each) => each.trim().replace(/^W\//, '') === etag);
}
