// The contract between the controller of SpireServers and `hansa spire-sidecar`: two ConfigMaps in the namespace of
// the SPIRE server. The controller creates both and writes the first one. The sidecar writes the second one. Pure.

import { createHash } from 'node:crypto';
import { isObject } from '../../api/schema/json.ts';
import { printableText } from '../../core/kube/kube-errors.ts';
import type { HeldRelationship, Relationship } from './parse-relationship.ts';

/** The sidecar may get, list and watch it by this name. */
export const relationshipsMapName = 'spire-server-federation-relationships';
export const relationshipsKey = 'relationships.json';

/** The sidecar may get, update and patch it. */
export const statusMapName = 'spire-server-federation-status';
export const statusKey = 'status.json';

/** Copies of bundles of removed relationships, one key each. The sidecar may get, update and patch it. */
export const keptMapName = 'spire-server-federation-kept-bundles';

/** After this time without a refresh, a bundle counts as stale. The value of the requirement. */
export const staleAfterSeconds = 3600;

export interface RelationshipsDocument {
  /** Of the SPIRE server. */
  readonly trustDomain: string;
  readonly staleAfterSeconds: number;
  /** Whether the sidecar takes a stale bundle from the server. */
  readonly withholdStaleBundles: boolean;
  /**
   * Whether the sidecar takes over relationships with these trust domains that others made at the server, for
   * example by hand. Otherwise it leaves them alone and reports them as `foreign`.
   */
  readonly adoptExisting?: boolean;
  /** The only namespaces whose entries may federate. Undefined: all entries may. */
  readonly namespaces?: readonly string[];
  /** All that the server should have. Without federation: none. */
  readonly relationships: readonly Relationship[];
  /** The sidecar neither changes nor removes what the server has of these trust domains. */
  readonly held: readonly HeldRelationship[];
}

/** As it is in the ConfigMap. */
export const requestText = (document: RelationshipsDocument): string =>
  `${JSON.stringify(document, undefined, 2)}\n`;

/** Names one version of the request. */
export const requestDigest = (text: string): string =>
  createHash('sha256').update(text).digest('hex');

/** What the sidecar sees of one relationship. Also of removed ones whose bundle it keeps. */
export interface RelationshipStatus {
  readonly trustDomain: string;
  readonly bundleEndpointURL: string;
  readonly profile: 'https_spiffe' | 'https_web';
  /** When SPIRE last confirmed or replaced the bundle, as ISO 8601. */
  readonly lastRefresh?: string;
  readonly lastError?: string;
  readonly bundleSequence?: number;
  /** Whether the server has a bundle of the trust domain. */
  readonly hasBundle: boolean;
  /** The relationship was removed. A copy of its bundle is kept. */
  readonly kept: boolean;
  /** The bundle is stale, and no entry federates with the trust domain until it is refreshed. */
  readonly withheld?: boolean;
  /** Others made the relationship at the server. The sidecar does not change it. */
  readonly foreign?: boolean;
  /** The refreshes that the sidecar asked for, since the relationship exists. */
  readonly refreshes?: RefreshCounts;
}

/** Counts that go on when a sidecar starts again. What it counted after its last report is lost then. */
export interface RefreshCounts {
  readonly count: number;
  /** Failed ones, by class. */
  readonly errors: Readonly<Record<string, number>>;
  /** How many took how long: one number for each bucket of the metric, and the sum in seconds. */
  readonly durations: { readonly counts: readonly number[]; readonly sum: number };
}

export interface StatusDocument {
  /** When the sidecar wrote this, as ISO 8601. */
  readonly observedAt: string;
  /** Of the SPIRE server, such as 1.12.4, where the sidecar knows it. */
  readonly spireVersion?: string;
  /** Why the sidecar cannot do its work, for example because the socket is missing. */
  readonly problem?: string;
  /** The digest of the request that the sidecar has carried out, as far as it could. */
  readonly request?: string;
  /** Parts of the request that the sidecar refuses, and why. */
  readonly refusals?: readonly string[];
  /** How many entries may not federate because of their namespace, and would otherwise. */
  readonly excludedEntries?: number;
  readonly relationships: readonly RelationshipStatus[];
}

/** Enough for 1,000 relationships. Others may write this ConfigMap too. */
const mostStatusBytes = 1024 * 1024;
const mostRelationships = 1000;
const mostTextLength = 2048;
/** More would not fit into a condition. */
export const mostRefusals = 20;
/** More than there are classes of errors, and buckets. */
const mostCounts = 32;

/** Undefined where the text is not a status document. Never throws. */
export function parseStatusDocument(text: unknown): StatusDocument | undefined {
  if (typeof text !== 'string' || text.length > mostStatusBytes) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { observedAt, relationships } = value;
  if (!isTime(observedAt) || !Array.isArray(relationships)) return undefined;
  const spireVersion = wordsOf(value['spireVersion']);
  const problem = wordsOf(value['problem']);
  const request = textOf(value['request']);
  const { excludedEntries, refusals } = value;
  const refused = Array.isArray(refusals)
    ? refusals.slice(0, mostRefusals).flatMap((each) => wordsOf(each) ?? [])
    : [];
  return {
    observedAt,
    ...(spireVersion !== undefined && { spireVersion }),
    ...(problem !== undefined && { problem }),
    ...(request !== undefined && { request }),
    ...(refused.length > 0 && { refusals: refused }),
    ...(isCount(excludedEntries) && { excludedEntries }),
    relationships: relationships.slice(0, mostRelationships).flatMap((each) => statusOf(each)),
  };
}

/** Nothing for an entry that is not one. */
function statusOf(value: unknown): readonly RelationshipStatus[] {
  if (!isObject(value)) return [];
  const { profile, lastRefresh, bundleSequence } = value;
  const trustDomain = textOf(value['trustDomain']);
  const bundleEndpointURL = textOf(value['bundleEndpointURL']);
  const lastError = wordsOf(value['lastError']);
  const refreshes = countsOf(value['refreshes']);
  if (trustDomain === undefined || bundleEndpointURL === undefined) return [];
  if (profile !== 'https_spiffe' && profile !== 'https_web') return [];
  return [
    {
      trustDomain,
      bundleEndpointURL,
      profile,
      ...(isTime(lastRefresh) && { lastRefresh }),
      ...(lastError !== undefined && { lastError }),
      ...(Number.isSafeInteger(bundleSequence) && { bundleSequence: bundleSequence as number }),
      hasBundle: value['hasBundle'] === true,
      kept: value['kept'] === true,
      ...(value['withheld'] === true && { withheld: true }),
      ...(value['foreign'] === true && { foreign: true }),
      ...(refreshes !== undefined && { refreshes }),
    },
  ];
}

/** Undefined where they are no counts. */
function countsOf(value: unknown): RefreshCounts | undefined {
  if (!isObject(value)) return undefined;
  const { count, errors, durations } = value;
  if (!isCount(count) || !isObject(errors) || !isObject(durations)) return undefined;
  const { counts, sum } = durations;
  const failed = Object.entries(errors);
  if (failed.length > mostCounts) return undefined;
  if (!failed.every(([name, number]) => /^[a-z-]{1,32}$/.test(name) && isCount(number))) {
    return undefined;
  }
  if (!Array.isArray(counts) || counts.length > mostCounts || !counts.every(isCount)) {
    return undefined;
  }
  if (typeof sum !== 'number' || !Number.isFinite(sum) || sum < 0) return undefined;
  return {
    count,
    errors: errors as Readonly<Record<string, number>>,
    durations: { counts, sum },
  };
}

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value.slice(0, mostTextLength) : undefined;

/** For texts that reach conditions and terminals. */
const wordsOf = (value: unknown): string | undefined => {
  const text = textOf(value);
  return text === undefined ? undefined : printableText(text, mostTextLength);
};

const isTime = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= 40 && !Number.isNaN(Date.parse(value));
