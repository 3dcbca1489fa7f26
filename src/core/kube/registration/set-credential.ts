// Calls the routes that store and delete the credential of a cluster.

import { pathTo } from '../../plane/path-to.ts';
import type { SiteClient } from '../../plane/site-client.ts';

/** Where a site stores and deletes the credential of a cluster. */
export const credentialPath = '/hansa/v1/clusters/{name}/credential';

/** Never log or print it. */
export type NewCredential = (
  | { readonly token: string }
  | { readonly clientCertificate: string; readonly clientKey: string }
) & {
  /** The site refuses the credential if the Cluster has another one. */
  readonly apiServer?: string;
};

/** Without the secret. */
export interface SetCredential {
  readonly cluster: string;
  readonly type: 'token' | 'certificate';
  readonly subject?: string;
  readonly expiresAt?: string;
}

export async function setCredential(
  client: SiteClient,
  name: string,
  credential: NewCredential,
): Promise<SetCredential> {
  const path = pathTo(credentialPath, { name });
  return (await client.request({ method: 'PUT', path, body: credential })).body as SetCredential;
}

/** Throws HANSA_NOT_FOUND where none is stored. */
export async function deleteCredential(client: SiteClient, name: string): Promise<void> {
  await client.request({ method: 'DELETE', path: pathTo(credentialPath, { name }) });
}
