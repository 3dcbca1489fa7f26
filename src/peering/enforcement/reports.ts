// The reports of replicas about stopped peers. Each replica writes only its own, so none overwrites
// what another one says.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

export type EnforcementRow = NonNullable<
  NonNullable<FederationPeer['status']>['enforcement']
>[number];

export const reportsCollection = 'peering.enforcement';

export interface EnforcementReport {
  /** As of `stopOf`. */
  readonly stop: string;
  /** The points of the replica itself. */
  readonly points: readonly EnforcementRow[];
  /** The programs that are connected to it, with names such as `agent/NAME`. */
  readonly remotes: readonly EnforcementRow[];
  /** How many more of them there are. */
  readonly others?: RemoteCounts;
}

export interface RemoteCounts {
  readonly enforced: number;
  readonly pending: number;
}

const reader = recordReader<EnforcementReport>(reportsCollection);

/** The id of a replica has no slash. */
export function reportName(replica: string, peer: string): string {
  return `${replica}/${peer}`;
}

export function peerOfReport(name: string): string {
  return name.slice(name.indexOf('/') + 1);
}

export function replicaOfReport(name: string): string {
  return name.slice(0, name.indexOf('/'));
}

export interface KeptReport {
  readonly name: string;
  readonly revision: number;
  readonly report: EnforcementReport;
}

export function reportOf(
  store: Pick<Store, 'get'>,
  replica: string,
  peer: string,
): KeptReport | undefined {
  const name = reportName(replica, peer);
  const entry = store.get(reportsCollection, name);
  return entry && { name, revision: entry.revision, report: reader.of(entry) };
}

/** Linear in all reports. */
export function reportNamesOf(store: Pick<Store, 'list'>, peer: string): readonly string[] {
  return store
    .list(reportsCollection)
    .entries.map(({ name }) => name)
    .filter((name) => peerOfReport(name) === peer);
}
