// The bundle endpoint (SPIFFE Federation §5): this site's bundle for whoever asks, by https_spiffe,
// because the federation listener presents the site's SVID. Public by nature: no certificate is
// asked for, and nothing of the request is used but its validator.

import type { BundlePublisher, PublishedBundle } from '../core/identity/published-bundle.ts';
import type { PlaneRequest, PlaneResponse, PlaneRoute } from '../core/plane/plane.ts';

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
  const handle: PlaneRoute['handle'] = (request) => {
    const published = publisher.current();
    return published instanceof Promise
      ? published.then((made) => answer(request, made))
      : answer(request, published);
  };
  return [
    ...paths.map((path) => ({ listener: 'federation', method: 'GET', path, handle }) as const),
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

function answer({ headers }: PlaneRequest, published: PublishedBundle): PlaneResponse {
  const { document, etag } = published;
  const asked = headers['if-none-match'];
  const known = typeof asked === 'string' && matches(asked, etag);
  return {
    status: known ? 304 : 200,
    contentType: 'application/json',
    body: known ? '' : document,
    // RFC 9110 §8.6: what a 304 says of the length is said of the 200.
    headers: { etag, 'content-length': String(document.length) },
  };
}

/** RFC 9110 §13.1.2: a list of validators, compared weakly, or `*` for whatever there is. */
function matches(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch.trim() === '*') return true;
  return ifNoneMatch.split(',').some((each) => each.trim().replace(/^W\//, '') === etag);
}
