// The route behind `hansa peer catalog`: this site asks a peer for its catalog and capabilities.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import type { FederationClient } from '../client/federation-client.ts';
import {
  type CapabilityReport,
  type Catalog,
  maxCapabilityBytes,
  maxCatalogBytes,
  parseCapabilityReport,
  parseCatalog,
} from '../grants/catalog-message.ts';
import { paths } from '../messages.ts';
import { peeringPaths } from '../paths.ts';
import type { PeerRepository } from '../peers/peer-repository.ts';

export interface PeerCatalogParts {
  readonly peers: Pick<PeerRepository, 'get'>;
  readonly client: Pick<FederationClient, 'read'>;
}

/** What the API answers. */
export type PeerCatalog =
  | ({ readonly name: string; readonly denied: false } & Catalog & CapabilityReport)
  /** The peer is reachable and knows this site, but no grant there covers the question. */
  | { readonly name: string; readonly denied: true };

export function peerCatalogRoute(parts: PeerCatalogParts): PlaneRoute {
  return route({
    listener: 'api',
    method: 'GET',
    path: peeringPaths.catalog,
    allow: 'rights',
    rights: [{ verb: 'get', kind: federationPeerKind, nameFrom: 'name' }],
    handle: async ({ params }) => {
      const body = JSON.stringify(await askPeer(parts, params.name));
      return { status: 200, contentType: 'application/json', body };
    },
  });
}

async function askPeer({ peers, client }: PeerCatalogParts, name: string): Promise<PeerCatalog> {
  const peer = await peers.get(name);
  if (peer === undefined) throw new HansaError('HANSA_NOT_FOUND', `There is no peer ${name}.`);
  try {
    const catalog = await client.read(peer, paths.catalog, {
      maxBytes: maxCatalogBytes,
      parse: (body) => parseCatalog(body, TrustDomain.parse(name)),
    });
    const report = await client.read(peer, paths.capabilities, {
      maxBytes: maxCapabilityBytes,
      parse: parseCapabilityReport,
    });
    return { name, denied: false, ...catalog, ...report };
  } catch (error) {
    if (hasCode(error, 'HANSA_FORBIDDEN')) return { name, denied: true };
    throw error;
  }
}
