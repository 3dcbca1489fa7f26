// Compares the relationships that a SPIRE server should have with those that it has. Pure.

import type { Relationship } from '../spire-relationships/parse-relationship.ts';
import type { RelationshipsDocument } from '../spire-relationships/sidecar-contract.ts';
import { bundleDigest, type SidecarRecord, type SidecarRecords } from './sidecar-record.ts';
import type { BundleFacts, Endpoint } from './spire-api.ts';

export interface Observed {
  readonly relationships: ReadonlyMap<string, Endpoint>;
  readonly bundles: ReadonlyMap<string, BundleFacts>;
}

/** Where the server gets a bundle from: the relationship, or the copy that was kept at its removal. */
export type BundleOrigin = 'bootstrap' | 'kept';

export interface PlannedRelationship {
  readonly relationship: Relationship;
  readonly bundle: BundleOrigin | undefined;
}

export interface RelationshipPlan {
  readonly create: readonly PlannedRelationship[];
  /** Their endpoint is another one. */
  readonly update: readonly Relationship[];
  readonly setBundle: readonly PlannedRelationship[];
  /** Relationships that others made and that the sidecar may now change. */
  readonly adopt: readonly Relationship[];
  readonly remove: readonly SidecarRecord[];
  /** Relationships that others made. They stay as they are. */
  readonly foreign: readonly string[];
}

export interface Doubts {
  /** Trust domains whose endpoint presented a certificate that the bundle at the server does not verify. */
  readonly distrusted: ReadonlySet<string>;
  /** Trust domains whose bundle at the server is not theirs. It counts as none. */
  readonly misfits: ReadonlySet<string>;
}

export function planRelationships(
  { relationships, held, adoptExisting }: RelationshipsDocument,
  observed: Observed,
  records: SidecarRecords,
  { distrusted, misfits }: Doubts,
): RelationshipPlan {
  const plan = {
    create: [] as PlannedRelationship[],
    update: [] as Relationship[],
    setBundle: [] as PlannedRelationship[],
    adopt: [] as Relationship[],
    remove: [] as SidecarRecord[],
    foreign: [] as string[],
  };
  const wanted = new Set(held.map(({ trustDomain }) => trustDomain));
  for (const relationship of relationships) {
    const { trustDomain } = relationship;
    wanted.add(trustDomain);
    const record = records.get(trustDomain);
    const found = observed.relationships.get(trustDomain);
    const bundle = originOf(relationship, record, {
      hasBundle: observed.bundles.has(trustDomain) && !misfits.has(trustDomain),
      isDistrusted: distrusted.has(trustDomain),
    });
    if (found === undefined) {
      plan.create.push({ relationship, bundle });
      continue;
    }
    if (record?.owned !== true) {
      if (adoptExisting !== true) {
        plan.foreign.push(trustDomain);
        continue;
      }
      plan.adopt.push(relationship);
    }
    if (!isSame(found, relationship)) plan.update.push(relationship);
    if (bundle !== undefined) plan.setBundle.push({ relationship, bundle });
  }
  for (const record of records.values()) {
    if (record.owned && !wanted.has(record.trustDomain)) plan.remove.push(record);
  }
  return plan;
}

/**
 * The server keeps a bundle that it has: SPIRE refreshed it, so it is newer than a bootstrap bundle. A bootstrap
 * bundle replaces it only where a user changed that bundle, or where the endpoint presents another certificate.
 */
function originOf(
  { bundle }: Relationship,
  record: SidecarRecord | undefined,
  { hasBundle, isDistrusted }: { readonly hasBundle: boolean; readonly isDistrusted: boolean },
): BundleOrigin | undefined {
  const isNew = bundle !== undefined && bundleDigest(bundle) !== record?.bootstrap;
  if (isNew && (!hasBundle || isDistrusted || record?.bootstrap !== undefined)) return 'bootstrap';
  if (hasBundle) return undefined;
  if (record?.bundle !== undefined) return 'kept';
  return bundle === undefined ? undefined : 'bootstrap';
}

function isSame(a: Endpoint, b: Endpoint): boolean {
  return (
    a.bundleEndpointURL === b.bundleEndpointURL &&
    a.profile === b.profile &&
    (a.profile === 'https_web' || a.endpointSpiffeID === b.endpointSpiffeID)
  );
}

export interface Staleness {
  readonly withhold: readonly SidecarRecord[];
  readonly release: readonly SidecarRecord[];
}

export interface RefreshFacts {
  /** By trust domain, in milliseconds. */
  readonly lastRefresh: ReadonlyMap<string, number>;
  /** Trust domains whose bundle at the server is not theirs. No workload may trust it. */
  readonly misfits: ReadonlySet<string>;
}

export function planWithholding(
  { relationships, held, withholdStaleBundles, staleAfterSeconds }: RelationshipsDocument,
  records: SidecarRecords,
  { lastRefresh, misfits }: RefreshFacts,
  now: number,
): Staleness {
  const withhold: SidecarRecord[] = [];
  const release: SidecarRecord[] = [];
  for (const { trustDomain } of [...relationships, ...held]) {
    const record = records.get(trustDomain);
    if (record?.owned !== true) continue;
    const refreshed = lastRefresh.get(trustDomain) ?? Date.parse(record.since);
    const isStale = now - refreshed > staleAfterSeconds * 1000;
    if (misfits.has(trustDomain) || (withholdStaleBundles && isStale)) withhold.push(record);
    else if (isHoldingBack(record)) release.push(record);
  }
  return { withhold, release };
}

/** Entries or a bundle of before a removal, or entries that were withheld. */
const isHoldingBack = ({ withheld, entries, bundle }: SidecarRecord): boolean =>
  withheld === true || entries !== undefined || bundle !== undefined;
