// Asks a site for the federated Services of its cluster set.

import { pathTo } from '../../core/plane/path-to.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { kubernetesPaths } from '../paths.ts';
import type { FederatedServiceView } from '../services/service-view.ts';

interface Page {
  readonly services: readonly FederatedServiceView[];
  readonly metadata?: { readonly continue?: string };
}

/** All pages, as the replica that answers sees them. */
export async function federatedServices(
  client: SiteClient,
): Promise<readonly FederatedServiceView[]> {
  const all: FederatedServiceView[] = [];
  let next: string | undefined;
  do {
    const { body } = await client.request({
      path: kubernetesPaths.services,
      query: { continue: next },
    });
    const { services, metadata } = body as Page;
    all.push(...services);
    next = metadata?.continue;
  } while (next !== undefined && next !== '');
  return all;
}

/** `key` is NAMESPACE/NAME, with `*` as the namespace of a global one. Throws HANSA_NOT_FOUND. */
export async function federatedService(
  client: SiteClient,
  key: string,
): Promise<FederatedServiceView> {
  const path = pathTo(kubernetesPaths.service, { key });
  return (await client.request({ path })).body as FederatedServiceView;
}
