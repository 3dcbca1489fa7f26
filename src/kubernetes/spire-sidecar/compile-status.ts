// What the sidecar reports about each relationship, and about removed ones whose bundle it keeps. Pure.

import type {
  RefreshCounts,
  RelationshipsDocument,
  RelationshipStatus,
  StatusDocument,
} from '../spire/sidecar-contract.ts';
import type { Exclusions } from './excluded-entries.ts';
import type { Observed } from './plan-relationships.ts';
import type { SidecarRecord, SidecarRecords } from './sidecar-record.ts';

export interface StatusFacts {
  readonly now: number;
  readonly spireVersion: string | undefined;
  readonly problem: string | undefined;
  /** Undefined where the request cannot be read: the last report stays then. */
  readonly document: RelationshipsDocument | undefined;
  readonly before: StatusDocument | undefined;
  readonly observed: Observed;
  readonly foreign: ReadonlySet<string>;
  readonly records: SidecarRecords;
  readonly exclusions: Exclusions;
  readonly lastRefreshMs: (trustDomain: string) => number | undefined;
  readonly lastError: (trustDomain: string) => string | undefined;
  readonly refreshes: (trustDomain: string) => RefreshCounts | undefined;
}

const foreignError =
  'The server has a relationship with this trust domain that Hansa did not make, so Hansa does not change it. Delete it (spire-server federation delete), or let Hansa adopt it.';

export function compileStatus(facts: StatusFacts): StatusDocument {
  const { now, spireVersion, problem, document, before, records } = facts;
  const observedAt = new Date(now).toISOString();
  const server = {
    ...(spireVersion !== undefined && { spireVersion }),
    ...(problem !== undefined && { problem }),
  };
  if (document === undefined) {
    return { observedAt, ...server, relationships: before?.relationships ?? [] };
  }
  const wanted = new Set(document.relationships.map(({ trustDomain }) => trustDomain));
  const removed = [...records.values()].filter(
    (record) => !wanted.has(record.trustDomain) && (record.owned || record.bundle !== undefined),
  );
  return {
    observedAt,
    ...server,
    ...(document.namespaces !== undefined && { excludedEntries: facts.exclusions.size }),
    relationships: [
      ...document.relationships.map((each) => wantedStatus(facts, each)),
      ...removed.map((record) => removedStatus(facts, record)),
    ].toSorted((a, b) => (a.trustDomain < b.trustDomain ? -1 : 1)),
  };
}

type Wanted = RelationshipsDocument['relationships'][number];

function wantedStatus(
  { observed, foreign, records, lastRefreshMs, lastError, refreshes }: StatusFacts,
  { trustDomain, bundleEndpointURL, profile }: Wanted,
): RelationshipStatus {
  const bundle = observed.bundles.get(trustDomain);
  const refreshed = lastRefreshMs(trustDomain);
  const isForeign = foreign.has(trustDomain);
  const counts = refreshes(trustDomain);
  const error = isForeign ? foreignError : lastError(trustDomain);
  return {
    trustDomain,
    bundleEndpointURL,
    profile,
    ...(refreshed !== undefined && { lastRefresh: new Date(refreshed).toISOString() }),
    ...(error !== undefined && { lastError: error }),
    ...(bundle !== undefined && { bundleSequence: bundle.sequence }),
    hasBundle: bundle !== undefined,
    kept: false,
    ...(records.get(trustDomain)?.withheld === true && { withheld: true }),
    ...(isForeign && { foreign: true }),
    ...(counts !== undefined && { refreshes: counts }),
  };
}

/** One that could not be removed yet has an error. */
function removedStatus(
  { observed, lastError }: StatusFacts,
  { trustDomain, bundleEndpointURL, profile, owned }: SidecarRecord,
): RelationshipStatus {
  const error = owned ? (lastError(trustDomain) ?? 'It is being removed.') : undefined;
  return {
    trustDomain,
    bundleEndpointURL,
    profile,
    ...(error !== undefined && { lastError: error }),
    hasBundle: observed.bundles.has(trustDomain),
    kept: true,
  };
}
