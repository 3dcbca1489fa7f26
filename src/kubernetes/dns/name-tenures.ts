// Since when a federated Service has each of its DNS names. A record is on its copies in members that may carry names,
// so that a name stays with its Service while it is not published. What the copy in the target says counts there.

import { findTenancy } from '../copies/find-tenancy.ts';
import type { SyncedMember } from '../copies/synced-member.ts';
import { namesSinceAnnotation } from '../names.ts';
import { isCopy } from '../services/compile-copy.ts';
import type { FederatedRef } from '../services/federated-name.ts';
import { parseTenures, recordedTenures } from '../services/tenures.ts';
import type { AskedNames, AskOptions } from './asked-names.ts';
import type { DnsTerm } from './dns-term.ts';

/** What the copies of a federated Service say about who came first. */
export function heldNames(
  { options, rules }: Pick<DnsTerm, 'options' | 'rules'>,
  ref: FederatedRef,
): Pick<AskOptions, 'tenancy' | 'since'> {
  const { member: target } = options;
  const members = options.members.list();
  const key = `${ref.namespace}/${ref.name}`;
  const live = target.services.byKey(key);
  const records = members.flatMap(({ clusterID, services, settings }) => {
    if (settings.dns !== true && clusterID !== target.clusterID) return [];
    const copy = services.byKey(key);
    const text = copy?.metadata.annotations?.[namesSinceAnnotation];
    return copy === undefined || text === undefined || !isCopy(copy) ? [] : [parseTenures(text)];
  });
  return {
    tenancy: findTenancy({ rules, ref, target, members, live, nowMs: undefined }),
    since: (name) => {
      const known = records.flatMap((tenures) => tenures.get(name) ?? []);
      return known.length === 0 ? undefined : Math.min(...known);
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
  const tenures = new Map(won.map(({ name, sinceMs }) => [name, sinceMs ?? nowMs]));
  return tenures.size === 0 ? undefined : recordedTenures(tenures, live);
}
