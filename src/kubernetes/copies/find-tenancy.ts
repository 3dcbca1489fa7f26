// Finds what the copies of one federated Service in all members say about who came first.

import { sinceAnnotation } from '../names.ts';
import type { Service } from '../objects.ts';
import type { FederatedRef } from '../services/federated-name.ts';
import {
  parseTenures,
  type Tenancy,
  type TenureRecord,
  type Tenures,
} from '../services/tenures.ts';
import type { CopyRules } from './copy-rules.ts';
import type { SyncedMember } from './synced-member.ts';

/** The part of a member that is looked at. */
export interface TenancyMember
  extends Pick<SyncedMember, 'clusterID' | 'settings' | 'isHome' | 'isRead'> {
  readonly state: Pick<SyncedMember['state'], 'state'>;
  readonly services: Pick<SyncedMember['services'], 'byKey'>;
}

export interface TenancyOptions {
  readonly rules: Pick<CopyRules, 'serviceOf' | 'isOwn'>;
  readonly ref: FederatedRef;
  readonly target: Pick<SyncedMember, 'clusterID'> | undefined;
  readonly members: readonly TenancyMember[];
  /** The copy in the target. */
  readonly live: Service | undefined;
  /** Undefined: nothing is to be recorded. */
  readonly nowMs: number | undefined;
}

/**
 * Whether what its copies say counts in all members: those of homes of supervisors. A supervisor writes into all
 * members anyway.
 */
export function isTrusted({
  isHome,
  settings,
}: Pick<SyncedMember, 'isHome' | 'settings'>): boolean {
  return isHome === true || settings.supervisor === true;
}

export function findTenancy({ rules, ref, target, members, live, nowMs }: TenancyOptions): Tenancy {
  const key = rules.serviceOf(ref);
  const records = members.flatMap((member): readonly TenureRecord[] => {
    const { clusterID, services, settings } = member;
    const isTarget = clusterID === target?.clusterID;
    const isHeard = isTarget || isTrusted(member) || settings.policies !== 'Receive';
    const copy = isTarget ? live : isHeard ? services.byKey(key) : undefined;
    const text = copy?.metadata.annotations?.[sinceAnnotation];
    if (copy === undefined || text === undefined || !rules.isOwn(copy)) return [];
    const from = isTrusted(member) ? 'trusted' : isTarget ? 'own' : 'witness';
    let parsed: Tenures | undefined;
    return [
      {
        clusterID,
        from,
        // Most are never looked at.
        get tenures() {
          return (parsed ??= parseTenures(text));
        },
      },
    ];
  });
  // Older claims could be in a member that this process has not read yet.
  const isReading = members.some(({ isRead, state }) => !isRead && state.state === 'Connecting');
  return { records, nowMs: isReading ? undefined : nowMs };
}
