// Asks a site for the federated policies of its cluster set.

import { pathTo } from '../../core/plane/path-to.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { kubernetesPaths } from '../paths.ts';
import type { FederatedPolicyView } from '../policies/view/shown-policy.ts';

interface Page {
  readonly policies: readonly FederatedPolicyView[];
  readonly metadata?: { readonly continue?: string };
}

/** All pages, as the replica that answers sees them. `name` is NAMESPACE/NAME, or NAME, of any kind. */
export async function federatedPolicies(
  client: SiteClient,
  name?: string,
): Promise<readonly FederatedPolicyView[]> {
  const all: FederatedPolicyView[] = [];
  let next: string | undefined;
  do {
    const { body } = await client.request({
      path: kubernetesPaths.policies,
      query: { continue: next, name },
    });
    const { policies, metadata } = body as Page;
    all.push(...policies);
    next = metadata?.continue;
  } while (next !== undefined && next !== '');
  return all;
}

/** `key` is RESOURCE.GROUP/NAMESPACE/NAME. Throws HANSA_NOT_FOUND. */
export async function federatedPolicy(
  client: SiteClient,
  key: string,
): Promise<FederatedPolicyView> {
  const path = pathTo(kubernetesPaths.policy, { key });
  return (await client.request({ path })).body as FederatedPolicyView;
}
