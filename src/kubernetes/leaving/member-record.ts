// Decides which members left the cluster set. The site remembers each member that it has read, so that it notices a
// removal from Federation also if it was down at that time. Pure.

import { jsonEquals } from '../../api/schema/json.ts';
import type { ConnectionSettings } from '../members/connect-member.ts';
import type { MemberSettings } from '../members/member.ts';

/** What the site remembers of a member. */
export interface MemberRecord {
  /** How to reach it. */
  readonly settings: ConnectionSettings;
  /** The version of Federation in which the site found these settings. */
  readonly federation: FederationVersion;
  /** Undefined while Federation lists it. */
  readonly leaving?: Leaving;
}

export interface FederationVersion {
  readonly uid: string;
  readonly generation: number;
}

export interface Leaving {
  /** Wall time. */
  readonly sinceMs: number;
  /**
   * `Removed`: a user removed it from Federation. `Replaced`: Federation was created again, or etcd was
   * restored, without it. That is no decision of a user about this member, so its copies stay.
   */
  readonly cause: 'Removed' | 'Replaced';
}

export interface Listing {
  readonly version: FederationVersion;
  readonly members: readonly MemberSettings[];
}

/** Returns the records that must change, by cluster ID. `isRead`: a member without copies of this site needs none. */
export function changedRecords(
  records: ReadonlyMap<string, MemberRecord>,
  { version, members }: Listing,
  isRead: (clusterID: string) => boolean,
  nowMs: number,
): ReadonlyMap<string, MemberRecord> {
  const changes = new Map<string, MemberRecord>();
  const listed = new Set<string>();
  for (const member of members) {
    const { clusterID } = member;
    listed.add(clusterID);
    const known = records.get(clusterID);
    const settings = connectionOf(member);
    const isKnown = known === undefined ? !isRead(clusterID) : isCurrent(known, settings, version);
    if (!isKnown) changes.set(clusterID, { settings, federation: version });
  }
  for (const [clusterID, record] of records) {
    if (listed.has(clusterID) || record.leaving !== undefined) continue;
    const { uid, generation } = record.federation;
    const isRemoved = uid === version.uid && version.generation > generation;
    const cause = isRemoved ? 'Removed' : 'Replaced';
    changes.set(clusterID, { ...record, leaving: { sinceMs: nowMs, cause } });
  }
  return changes;
}

function isCurrent(
  { settings, federation, leaving }: MemberRecord,
  now: ConnectionSettings,
  { uid, generation }: FederationVersion,
): boolean {
  return (
    leaving === undefined &&
    federation.uid === uid &&
    federation.generation <= generation &&
    jsonEquals(settings, now)
  );
}

function connectionOf({
  clusterID,
  server,
  secret,
  caBundle,
  tlsServerName,
}: MemberSettings): ConnectionSettings {
  return {
    clusterID,
    ...(server !== undefined && { server }),
    ...(secret !== undefined && { secret }),
    ...(caBundle !== undefined && { caBundle }),
    ...(tlsServerName !== undefined && { tlsServerName }),
  };
}
