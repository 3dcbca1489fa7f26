// What the site says about the SPIRE servers that it operates.

import type { SiteClient } from '../../core/plane/site-client.ts';
import { kubernetesPaths } from '../paths.ts';

export interface SpireInfo {
  /** The name of the Cluster. */
  readonly cluster: string;
  /** Undefined without a SpireServer, or with one that is not valid. */
  readonly trustDomain?: string;
  /** Why the site cannot operate it. */
  readonly problem?: string;
  /** Of SPIRE, where the server reports it. */
  readonly spireVersion?: string;
  /** Who hands relationships to SPIRE. */
  readonly by?: string;
  readonly conditions: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
    readonly message: string;
  }[];
  readonly relationships: readonly {
    readonly trustDomain: string;
    readonly state: string;
    readonly since: string;
    readonly lastRefresh?: string;
    readonly reason?: string;
    readonly message?: string;
  }[];
}

export async function spireServers(client: SiteClient): Promise<readonly SpireInfo[]> {
  const { body } = await client.request({ method: 'GET', path: kubernetesPaths.spire });
  return (body as { readonly servers: readonly SpireInfo[] }).servers;
}
