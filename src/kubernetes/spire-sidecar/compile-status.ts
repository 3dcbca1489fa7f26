// What the sidecar reports about each relationship, and about removed ones whose bundle it keeps. Pure.

import {
  mostRefusals,
  type RefreshCounts,
  type RelationshipsDocument,
  type RelationshipStatus,
  type StatusDocument,
} from '../spire-relationships/sidecar-contract.ts';
import type { Exclusions } from './excluded-entries.ts';
import type { Observed } from './plan-relationships.ts';
import type { ReadRelationships } from './read-relationships.ts';
import type { SidecarRecord, SidecarRecords } from './sidecar-record.ts';

export interface StatusFacts {
  readonly now: number;
  readonly spireVersion: string | undefined;
  readonly problem: string | undefined;
  /** Where the document cannot be read, the last report stays. */
  readonly request: ReadRelationships;
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
  const { now, spireVersion, problem, request, before, records } = facts;
  const observedAt = new Date(now).toISOString();
  const server = {
    ...(spireVersion !== undefined && { spireVersion }),
    ...(problem !== undefined && { problem }),
  };
  if (request.document === undefined) {
    return { observedAt, ...server, relationships: before?.relationships ?? [] };
  }
  const { document, digest, refusals } = request;
  const held = document.held.flatMap(({ trustDomain }) => {
    const record = records.get(trustDomain);
    return record?.owned === true ? [record] : [];
  });
  const wanted = new Set(
    [...document.relationships, ...document.held].map(({ trustDomain }) => trustDomain),
  );
  const removed = [...records.values()].filter(
    (record) => !wanted.has(record.trustDomain) && (record.owned || record.bundle !== undefined),
  );
  return {
    observedAt,
    ...server,
    ...(problem === undefined && { request: digest }),
    ...(refusals.length > 0 && { refusals: refusals.slice(0, mostRefusals).map(cut) }),
    ...(document.namespaces !== undefined && { excludedEntries: facts.exclusions.size }),
    relationships: [
      ...[...document.relationships, ...held].map((each) => wantedStatus(facts, each)),
      ...removed.map((record) => removedStatus(facts, record)),
    ].toSorted((a, b) => (a.trustDomain < b.trustDomain ? -1 : 1)),
  };
}

/** So that all of them fit into the ConfigMap. */
const mostRefusalLength = 1024;

const cut = (text: string): string =>
  text.length <= mostRefusalLength ? text : `${text.slice(0, mostRefusalLength - 1)}…`;

type Wanted = Pick<
  RelationshipsDocument['relationships'][number],
  'trustDomain' | 'bundleEndpointURL' | 'profile'
>;

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
