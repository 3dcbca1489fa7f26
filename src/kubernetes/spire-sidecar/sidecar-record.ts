// What the sidecar remembers of one trust domain beyond its own life: whether the relationship at the server is
// its own, and what it needs to undo a removal. Each record is one key of a ConfigMap. Pure.

import { createHash } from 'node:crypto';
import { isObject } from '../../api/schema/json.ts';
import { isTrustDomain, type Relationship } from '../spire-relationships/parse-relationship.ts';

export interface SidecarRecord
  extends Pick<Relationship, 'trustDomain' | 'bundleEndpointURL' | 'profile'> {
  /** Whether the sidecar created or adopted the relationship, and has not removed it. */
  readonly owned: boolean;
  /** When it became so, as ISO 8601. */
  readonly since: string;
  /** The digest of the bootstrap bundle that the server last got. */
  readonly bootstrap?: string;
  /** After a removal: the bundle that the server had, as a message of SPIRE's API in base64. */
  readonly bundle?: string;
  /** The IDs of entries that federated with the trust domain until the removal or the withholding. */
  readonly entries?: readonly string[];
  /** The entries do not federate with it because its bundle is stale. */
  readonly withheld?: boolean;
}

export type SidecarRecords = ReadonlyMap<string, SidecarRecord>;

/** A trust domain can be longer than a key. */
export const recordKey = (trustDomain: string): string =>
  `${createHash('sha256').update(trustDomain).digest('hex').slice(0, 32)}.json`;

export const bundleDigest = (document: string): string =>
  createHash('sha256').update(document).digest('hex');

/** Leaves out values that are not records. Never throws. */
export function readRecords(data: unknown): SidecarRecords {
  const records = new Map<string, SidecarRecord>();
  if (!isObject(data)) return records;
  for (const [key, text] of Object.entries(data)) {
    const record = readRecord(text);
    if (record !== undefined && recordKey(record.trustDomain) === key) {
      records.set(record.trustDomain, record);
    }
  }
  return records;
}

function readRecord(text: unknown): SidecarRecord | undefined {
  let value: unknown;
  try {
    value = typeof text === 'string' ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { trustDomain, bundleEndpointURL, profile, since, bootstrap, bundle, entries } = value;
  if (typeof trustDomain !== 'string' || !isTrustDomain(trustDomain)) return undefined;
  if (profile !== 'https_spiffe' && profile !== 'https_web') return undefined;
  if (typeof since !== 'string' || Number.isNaN(Date.parse(since))) return undefined;
  return {
    trustDomain,
    bundleEndpointURL: typeof bundleEndpointURL === 'string' ? bundleEndpointURL : '',
    profile,
    owned: value['owned'] === true,
    since,
    ...(typeof bootstrap === 'string' && { bootstrap }),
    ...(typeof bundle === 'string' && { bundle }),
    ...(Array.isArray(entries) && {
      entries: entries.filter((id): id is string => typeof id === 'string'),
    }),
    ...(value['withheld'] === true && { withheld: true }),
  };
}
