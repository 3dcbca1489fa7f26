// What a stored credential is bound to: one Cluster and one way to its API server. A changed address must
// not make the site send the credential somewhere else. Pure.

import { createHash } from 'node:crypto';
import type { Cluster } from '../../../api/kinds/cluster.ts';
import { certificateBlocks } from '../../identity/tls/web-transport.ts';

export type BoundCluster = Pick<Cluster, 'spec'> & {
  readonly metadata: Pick<Cluster['metadata'], 'name' | 'uid'>;
};

/** All parts are in the sealed record, so they cannot be changed in the store. */
export interface CredentialBinding {
  readonly uid: string;
  readonly apiServer: string;
  /** A digest of the CA certificates, the path of their file, or `public`. */
  readonly authorities: string;
  readonly tlsServerName: string;
  readonly proxyURL: string;
}

/** Undefined without an API server. */
export function bindingOf({ metadata, spec }: BoundCluster): CredentialBinding | undefined {
  if (spec.apiServer === undefined) return undefined;
  return {
    uid: metadata.uid,
    apiServer: new URL(spec.apiServer).href,
    authorities: authoritiesOf(spec),
    tlsServerName: spec.tlsServerName ?? '',
    proxyURL: spec.proxyURL === undefined ? '' : new URL(spec.proxyURL).href,
  };
}

const fields = {
  uid: 'the Cluster itself',
  apiServer: 'apiServer',
  authorities: 'the CA',
  tlsServerName: 'tlsServerName',
  proxyURL: 'proxyURL',
} as const satisfies Record<keyof CredentialBinding, string>;

/** What changed since the credential was set, in words. Empty: nothing. */
export function changedSince(then: CredentialBinding, now: CredentialBinding): readonly string[] {
  const keys = Object.keys(fields) as (keyof CredentialBinding)[];
  return keys.filter((key) => then[key] !== now[key]).map((key) => fields[key]);
}

/**
 * The author of a Cluster cannot change a file on the machine of the site, so its path stands for its
 * content, and the file can be renewed.
 */
function authoritiesOf({ caFile, caBundle }: Cluster['spec']): string {
  if (caFile !== undefined) return `file:${caFile}`;
  if (caBundle === undefined) return 'public';
  // Spaces and comments between certificates mean nothing.
  const certificates = certificateBlocks(caBundle).map((block) =>
    block.replaceAll(/-----[A-Z ]+-----|\s/g, ''),
  );
  return `sha256:${createHash('sha256').update(certificates.join('\n')).digest('hex')}`;
}
