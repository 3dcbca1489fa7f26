// The catalog that a site shows to a peer: the offers and clusters that the peer may use now, by the
// same decision as every other call. Pure.

import { decideGrant, type GrantQuestion, type GrantTarget } from '../../api/grants.ts';
import {
  type FederationGrant,
  type GrantScope,
  grantScopes,
  grantTargetFields,
} from '../../api/kinds/federation-grant.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { ServiceOffer } from '../../api/kinds/service-offer.ts';
import type { Catalog, CatalogCluster, CatalogOffer } from './catalog-message.ts';
import { maxCatalogBytes } from './catalog-message.ts';

type Grant = Pick<FederationGrant, 'metadata' | 'spec'>;

export interface CatalogFacts {
  readonly peer: FederationPeer | undefined;
  readonly grants: Iterable<Grant>;
  readonly offers: Iterable<Pick<ServiceOffer, 'metadata' | 'spec'>>;
  /** The Clusters of this site. */
  readonly clusters: Iterable<Omit<CatalogCluster, 'scopes'>>;
}

/** Where the question comes from. The site of a peer asks for all of its identities. */
export interface CatalogQuestion {
  readonly peer: string;
  readonly sourceAddress: string;
  readonly nowMs: number;
}

/** Sorted by name, so that equal grants give equal catalogs. Linear in offers, clusters and entries of grants. */
export function catalogFor(question: CatalogQuestion, facts: CatalogFacts): Catalog {
  const byTarget = indexed(question.peer, facts.grants);
  // The site issues every identity of the peer. Clusters are for the site itself.
  const scopesOf = (target: GrantTarget, spiffeID: string | undefined): readonly GrantScope[] => {
    const grants = byTarget.get(keyOf(target));
    if (grants === undefined) return [];
    return grantScopes.filter((scope) => {
      const asked: GrantQuestion = { ...question, spiffeID, target, need: { scope } };
      return decideGrant(asked, facts.peer, grants).covered;
    });
  };
  const offers: CatalogOffer[] = [];
  for (const { metadata, spec } of facts.offers) {
    if (metadata.deletionTimestamp !== undefined) continue;
    const scopes = scopesOf({ type: 'offer', name: metadata.name }, undefined);
    if (scopes.length === 0) continue;
    const { spiffeID, description, protocol, port } = spec;
    offers.push({
      name: metadata.name,
      spiffeID,
      scopes,
      ...(description === undefined ? {} : { description }),
      ...(protocol === undefined ? {} : { protocol }),
      ...(port === undefined ? {} : { port }),
    });
  }
  const site = `spiffe://${question.peer}/hansa/site`;
  const clusters = [...facts.clusters].flatMap(({ name, ...details }) => {
    const scopes = scopesOf({ type: 'cluster', name }, site);
    if (scopes.length === 0) return [];
    return [{ name, scopes, ...(scopes.includes('read') ? details : {}) }];
  });
  return bounded(offers.toSorted(byName), clusters.toSorted(byName));
}

/** Leaves out what does not fit, and says how many entries that are. */
function bounded(offers: Catalog['offers'], clusters: Catalog['clusters']): Catalog {
  let room = maxCatalogBytes - 256;
  const fits = (entry: object): boolean => {
    const bytes = Buffer.byteLength(JSON.stringify(entry)) + 1;
    if (bytes > room) return false;
    room -= bytes;
    return true;
  };
  // Clusters first: they are few and small.
  const shownClusters = clusters.slice(0, mostEntries).filter(fits);
  const shownOffers = offers.slice(0, mostEntries).filter(fits);
  return {
    offers: shownOffers,
    clusters: shownClusters,
    leftOut: offers.length - shownOffers.length + clusters.length - shownClusters.length,
  };
}

const mostEntries = 1024;

function indexed(peer: string, grants: Iterable<Grant>): ReadonlyMap<string, readonly Grant[]> {
  const found = new Map<string, Grant[]>();
  for (const grant of grants) {
    if (grant.spec.peer !== peer || grant.metadata.deletionTimestamp !== undefined) continue;
    for (const type of ['offer', 'cluster'] as const) {
      for (const name of grant.spec[grantTargetFields[type]] ?? []) {
        const key = keyOf({ type, name });
        const same = found.get(key);
        if (same === undefined) found.set(key, [grant]);
        else if (same.at(-1) !== grant) same.push(grant);
      }
    }
  }
  return found;
}

/** No type contains a slash, so no two targets have the same key. */
function keyOf({ type, name }: GrantTarget): string {
  return `${type}/${name}`;
}

function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : 1;
}
