// The bundle endpoint (SPIFFE Federation §5): this site's bundle for whoever asks, by https_spiffe on
// the federation listener, which presents the site's SVID, and by https_web on the web listener.
// Public by nature: no certificate is asked for, and nothing of the request is used but its validator.

import type {
  BundlePublisher,
  PublishedBundle,
} from '../../core/identity/bundle/published-bundle.ts';
import {
  type AnyRequest,
  type PlaneResponse,
  type PlaneRoute,
  route,
} from '../../core/plane/route.ts';
import { CachedResponse } from '../../core/plane/cached-response.ts';
import { trustPaths } from '../paths.ts';

/** The second is where some clients of SPIFFE look. */
const paths = ['/', '/webapi/spiffe/bundle.json'] as const;

/** The same for whoever may speak to the API, so that `hansa trust` need not reach the other listener. */

/** What the API answers. */
export interface OwnBundle {
  readonly trustDomain: string;
  /** The document as it is published. */
  readonly bundle: string;
}

export function bundleRoutes(publisher: BundlePublisher): readonly PlaneRoute[] {
  // Made once for each bundle: most of what sites ask each other is this.
  let ready: { readonly published: PublishedBundle; readonly answer: CachedResponse } | undefined;
  const answerOf = (published: PublishedBundle): CachedResponse => {
    if (ready?.published !== published) {
      const answer = new CachedResponse(published.document, { contentType: 'application/json' });
      ready = { published, answer };
    }
    return ready.answer;
  };
  const handle = (request: AnyRequest): PlaneResponse | Promise<PlaneResponse> => {
    const published = publisher.current();
    return published instanceof Promise
      ? published.then((made) => answerOf(made).to(request))
      : answerOf(published).to(request);
  };
  return [
    ...(['federation', 'web'] as const).flatMap((listener) =>
      paths.map((path) => route({ listener, method: 'GET', path, allow: 'public', handle })),
    ),
    route({
      listener: 'api',
      method: 'GET',
      path: trustPaths.bundle,
      // The other listeners give it to everyone.
      allow: 'authenticated',
      handle: async () => {
        const { bundle, document } = await publisher.current();
        const own: OwnBundle = {
          trustDomain: bundle.trustDomain.name,
          bundle: document.toString('utf8'),
        };
        return { status: 200, contentType: 'application/json', body: JSON.stringify(own) };
      },
    }),
  ];
}
