// The bundle endpoint (SPIFFE Federation §5). It serves the bundle of this site to every client, with
// the profile https_spiffe on the federation listener and https_web on the web listener. It needs no
// client certificate, and uses no part of the request except its validator (If-None-Match).

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

/** Some SPIFFE clients use the second path. */
const paths = ['/', '/webapi/spiffe/bundle.json'] as const;

/** The same document on the API, so that `hansa trust` needs no access to the other listeners. */

/** The response of the API. */
export interface OwnBundle {
  readonly trustDomain: string;
  /** The document as it is published. */
  readonly bundle: string;
}

export function bundleRoutes(publisher: BundlePublisher): readonly PlaneRoute[] {
  // Encoded once per bundle, because this is the most frequent request between sites.
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
      // The other listeners serve it to everyone.
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
