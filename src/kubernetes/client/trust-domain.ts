// Asks a site for its trust domain.

import type { ResourceOf } from '../../api/kind.ts';
import { siteKind } from '../../api/kinds/site.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';

export async function trustDomainOf(client: SiteClient): Promise<string> {
  const site = await client.get(siteKind, siteKind.singleton as string);
  const { status } = site as unknown as ResourceOf<typeof siteKind>;
  if (status?.trustDomain !== undefined) return status.trustDomain;
  throw new HansaError(
    'HANSA_UNAVAILABLE',
    'The site has not reported its trust domain yet. Try again in a moment.',
  );
}
