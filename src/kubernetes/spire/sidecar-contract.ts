// The contract between the controller of SpireServers and `hansa spire-sidecar`: two ConfigMaps in the namespace of
// the SPIRE server. The controller creates both and writes the first one. The sidecar writes the second one. Pure.

import { isObject } from '../../api/schema/json.ts';
import type { Relationship } from './relationships.ts';

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
  /** All that the server should have. Without federation: none. */
  readonly relationships: readonly Relationship[];
}

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
}

export interface StatusDocument {
  /** When the sidecar wrote this, as ISO 8601. */
  readonly observedAt: string;
  /** Of the SPIRE server, such as 1.12.4, where the sidecar knows it. */
  readonly spireVersion?: string;
  /** Why the sidecar cannot do its work, for example because the socket is missing. */
  readonly problem?: string;
  readonly relationships: readonly RelationshipStatus[];
}

/** Enough for 1,000 relationships. Others may write this ConfigMap too. */
const mostStatusBytes = 1024 * 1024;
const mostRelationships = 1000;
const mostTextLength = 2048;

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
  const spireVersion = textOf(value['spireVersion']);
  const problem = textOf(value['problem']);
  return {
    observedAt,
    ...(spireVersion !== undefined && { spireVersion }),
    ...(problem !== undefined && { problem }),
    relationships: relationships.slice(0, mostRelationships).flatMap((each) => statusOf(each)),
  };
}

/** Nothing for an entry that is not one. */
function statusOf(value: unknown): readonly RelationshipStatus[] {
  if (!isObject(value)) return [];
  const { profile, lastRefresh, bundleSequence } = value;
  const trustDomain = textOf(value['trustDomain']);
  const bundleEndpointURL = textOf(value['bundleEndpointURL']);
  const lastError = textOf(value['lastError']);
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
    },
  ];
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value.slice(0, mostTextLength) : undefined;

const isTime = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= 40 && !Number.isNaN(Date.parse(value));
