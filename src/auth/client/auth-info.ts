// Asks a site for the facts about it that clusters and their clients need.

import type { SiteClient } from '../../core/plane/site-client.ts';
import { authPaths } from '../paths.ts';

export interface AuthInfo {
  readonly trustDomain: string;
  /** The setting auth.baseDomain. */
  readonly baseDomain: string;
  /** The audience of ServiceAccount tokens for the TokenReview endpoint. */
  readonly audience: string;
  /** The setting auth.credentialsDir, absolute. */
  readonly credentialsDir?: string;
  /** The `iss` of the site's JWT-SVIDs. */
  readonly jwtIssuer?: string;
  /** The CA of the api listener in PEM. */
  readonly ca: string;
}

export async function authInfo(client: SiteClient): Promise<AuthInfo> {
  return (await client.request({ path: authPaths.info })).body as AuthInfo;
}
