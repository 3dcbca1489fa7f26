// Asks a running site about its peers and their audit logs.

import { HansaError } from '../../core/errors/error.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { PeerSummary } from '../routes/operator-routes.ts';
import type { WitnessedSummary } from '../routes/witness-routes.ts';
import { peeringPaths } from '../paths.ts';

export async function listPeers(client: SiteClient): Promise<readonly PeerSummary[]> {
  const { body } = await client.request({ path: peeringPaths.peers });
  return (body as { readonly peers: readonly PeerSummary[] }).peers;
}

export async function findPeer(client: SiteClient, name: string): Promise<PeerSummary> {
  const peer = (await listPeers(client)).find((known) => known.name === name);
  if (peer !== undefined) return peer;
  throw new HansaError(
    'HANSA_NOT_FOUND',
    `There is no peer ${name}. To list the peers: hansa peer list`,
  );
}

/** The audit logs of peers that the site witnesses. */
export async function listLogs(client: SiteClient): Promise<readonly WitnessedSummary[]> {
  const { body } = await client.request({ path: peeringPaths.witness });
  return (body as { readonly logs: readonly WitnessedSummary[] }).logs;
}
