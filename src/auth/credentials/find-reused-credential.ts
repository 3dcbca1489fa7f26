// Finds a credential that two Clusters with different API servers would share. Each API server could use
// it at the other one, so the author of a Cluster must not be able to send it elsewhere. The CA and the proxy
// count too: with those of the author, another machine can answer at the same address. Pure.

import type { Cluster } from '../../api/kinds/cluster.ts';
import {
  bindingOf,
  changedSince,
  type CredentialBinding,
} from '../../core/kube/credentials/credential-binding.ts';

type Named = { readonly metadata: { readonly name: string }; readonly spec: Cluster['spec'] };

export interface ReusedCredential {
  /** The path of the field. */
  readonly field: string;
  readonly value: string;
  /** The other cluster. */
  readonly cluster: string;
}

export function findReusedCredential(
  { metadata, spec }: Named,
  all: readonly Named[],
): ReusedCredential | undefined {
  const destination = destinationOf(spec);
  if (destination === undefined) return undefined;
  const own = credentialsIn(spec);
  for (const other of all) {
    const theirDestination = destinationOf(other.spec);
    if (other.metadata.name === metadata.name || theirDestination === undefined) continue;
    if (changedSince(destination, theirDestination).length === 0) continue;
    const theirs = credentialsIn(other.spec);
    const reused = own.find(([field, value]) =>
      theirs.some((one) => one[0] === field && one[1] === value),
    );
    if (reused === undefined) continue;
    return { field: reused[0], value: reused[1], cluster: other.metadata.name };
  }
  return undefined;
}

/** Names the credentials and where they are sent, to compare; undefined where two Clusters cannot share one. */
export function credentialUse(spec: Cluster['spec']): string | undefined {
  const destination = destinationOf(spec);
  const own = credentialsIn(spec);
  if (destination === undefined || own.length === 0) return undefined;
  return JSON.stringify([destination, own]);
}

/** Without the Cluster itself. */
function destinationOf(spec: Cluster['spec']): CredentialBinding | undefined {
  return bindingOf({ metadata: { name: '', uid: '' }, spec });
}

function credentialsIn({ credential }: Cluster['spec']): readonly (readonly [string, string])[] {
  const { tokenFile, clientCertificate, jwtSVID } = credential ?? {};
  const found = [
    ['spec.credential.tokenFile', tokenFile],
    ['spec.credential.clientCertificate.keyFile', clientCertificate?.keyFile],
    ['spec.credential.jwtSVID.audience', jwtSVID?.audience],
  ] as const;
  return found.flatMap(([field, value]) => (value === undefined ? [] : [[field, value] as const]));
}
