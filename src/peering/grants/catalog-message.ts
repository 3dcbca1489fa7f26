// The answers of the catalog and of the capability report: types, size limits and strict parsers.
// Parsers ignore unknown fields and values, so that a later version can add some.

import { type GrantScope, grantScopes } from '../../api/kinds/federation-grant.ts';
import { serviceProtocols, type ServiceProtocol } from '../../api/kinds/service-offer.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { allNamesIn, type FeatureNames } from '../features.ts';
import { malformed, Message } from '../message-reader.ts';

export interface CatalogOffer {
  readonly name: string;
  /** The workload that serves it. */
  readonly spiffeID: string;
  /** What identities of the caller may do. */
  readonly scopes: readonly GrantScope[];
  readonly description?: string;
  readonly protocol?: ServiceProtocol;
  readonly port?: number;
}

export interface CatalogCluster {
  readonly name: string;
  /** What the site of the caller may do. */
  readonly scopes: readonly GrantScope[];
  /** The issuer of its ServiceAccount tokens, where the caller may read the cluster. */
  readonly issuer?: string;
  /** The trust domain of its SPIRE server, where the caller may get the bundle of that server. */
  readonly spireTrustDomain?: string;
}

export interface Catalog {
  readonly offers: readonly CatalogOffer[];
  readonly clusters: readonly CatalogCluster[];
  /** How many entries did not fit into the answer. */
  readonly leftOut: number;
}

export interface CapabilityReport extends FeatureNames {
  /** The versions of the federation API that the site supports. */
  readonly contractVersions: readonly number[];
}

export const maxCatalogBytes = 256 * 1024;
export const maxCapabilityBytes = 16 * 1024;

const limits = { entries: 1024, scopes: 16, versions: 16 } as const;
/** As Kubernetes names objects. */
const objectName = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;

/** `sender` is the authenticated peer. It can offer only its own workloads. */
export function parseCatalog(body: Uint8Array, sender: TrustDomain): Catalog {
  const message = new Message(body);
  const offers = message.list('offers', limits.entries, (item) => offerOf(item, sender));
  const clusters = message.list('clusters', limits.entries, (item) => {
    const cluster = new Message(item);
    return {
      name: cluster.text('name', objectName),
      scopes: scopesOf(cluster),
      ...cluster.optional('issuer', () => cluster.text('issuer', /^\S{1,2048}$/)),
      ...cluster.optional('spireTrustDomain', () => cluster.trustDomain('spireTrustDomain').name),
    };
  });
  for (const entries of [offers, clusters]) {
    if (new Set(entries.map(({ name }) => name)).size !== entries.length) {
      throw malformed('two entries of the catalog have the same name');
    }
  }
  return { offers, clusters, leftOut: message.count('leftOut') };
}

export function parseCapabilityReport(body: Uint8Array): CapabilityReport {
  const message = new Message(body);
  return {
    contractVersions: message.list('contractVersions', limits.versions, (item) =>
      new Message({ item }).version('item'),
    ),
    ...allNamesIn(message),
  };
}

function offerOf(item: unknown, sender: TrustDomain): CatalogOffer {
  const offer = new Message(item);
  const id = SpiffeId.parse(offer.text('spiffeID', /^spiffe:/));
  if (!id.memberOf(sender)) {
    throw malformed(`an offer has the SPIFFE ID ${id.toString()} of another trust domain`);
  }
  const { protocol } = offer.optional('protocol', (value) =>
    serviceProtocols.find((known) => known === value),
  );
  return {
    name: offer.text('name', objectName),
    spiffeID: id.toString(),
    scopes: scopesOf(offer),
    ...offer.optional('description', () => offer.text('description', /^[^]{0,1024}$/)),
    ...(protocol === undefined ? {} : { protocol }),
    ...offer.optional('port', () => portOf(offer)),
  };
}

function portOf(offer: Message): number {
  const port = offer.count('port');
  if (port < 1 || port > 65_535) throw malformed('port is not a port');
  return port;
}

/** Scopes of a later version are left out: this site could not use them. */
function scopesOf(entry: Message): readonly GrantScope[] {
  const told = entry.list('scopes', limits.scopes, (item) => item);
  return grantScopes.filter((scope) => told.includes(scope));
}
