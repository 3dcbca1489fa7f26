// Since when a federated Service has each of its DNS names. A record is on its copies in members that may carry names,
// so that a name stays with its Service while it is not published. What copies in homes of supervisors say counts
// first, then what the copy in the target says, then what others testify, but never for themselves.

import { findTenancy, isTrusted } from '../copies/find-tenancy.ts';
import type { SyncedMember } from '../copies/synced-member.ts';
import { namesSinceAnnotation } from '../names.ts';
import { isCopy } from '../services/compile-copy.ts';
import type { FederatedRef } from '../services/federated-name.ts';
import { parseTenures, recordedTenures } from '../services/tenures.ts';
import type { AskedNames, AskOptions } from './asked-names.ts';
import type { DnsTerm } from './dns-term.ts';

/** The rank of records in other members, which come last. */
const witness = 2;

/** What the copies of a federated Service say about who came first. */
export function heldNames(
  { options, rules }: Pick<DnsTerm, 'options' | 'rules'>,
  ref: FederatedRef,
): Pick<AskOptions, 'tenancy' | 'since'> {
  const { member: target } = options;
  const members = options.members.list();
  const key = `${ref.namespace}/${ref.name}`;
  const live = target.services.byKey(key);
  const records = members.flatMap((member) => {
    const { clusterID, services, settings } = member;
    const isTarget = clusterID === target.clusterID;
    if (settings.dns !== true && !isTarget) return [];
    const copy = services.byKey(key);
    const text = copy?.metadata.annotations?.[namesSinceAnnotation];
    if (copy === undefined || text === undefined || !isCopy(copy)) return [];
    const rank = isTrusted(member) ? 0 : isTarget ? 1 : witness;
    if (rank === witness && settings.policies === 'Receive') return [];
    return [{ clusterID, rank, tenures: parseTenures(text) }];
  });
  return {
    tenancy: findTenancy({ rules, ref, target, members, live, nowMs: undefined }),
    since: (name, askers) => {
      const known = records.flatMap(({ clusterID, rank, tenures }) => {
        const ms = tenures.get(name);
        const isHeard = rank !== witness || !askers.includes(clusterID);
        return ms === undefined || !isHeard ? [] : [{ rank, ms }];
      });
      return known.toSorted((a, b) => a.rank - b.rank || a.ms - b.ms)[0];
    },
  };
}

/** The record that the copy in the target should have. Undefined: none. */
export function recordOfNames(
  term: Pick<DnsTerm, 'claims'>,
  key: string,
  asked: AskedNames | undefined,
  target: Pick<SyncedMember, 'clusterID' | 'settings'>,
  live: string | undefined,
  nowMs: number,
): string | undefined {
  const isKept = target.settings.dns === true || asked?.byHand.has(target.clusterID) === true;
  if (!isKept || asked === undefined) return undefined;
  const won = asked.claims.filter(({ name }) => {
    const winner = term.claims.winner(name);
    return winner === undefined || winner.key === key;
  });
  const tenures = new Map(won.map(({ name, since }) => [name, since?.ms ?? nowMs]));
  return tenures.size === 0 ? undefined : recordedTenures(tenures, live);
}
