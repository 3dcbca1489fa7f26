// Shows in the status of a suspended or revoked peer which enforcement points of all replicas, and which
// agents, already reject it.

import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { hasCode } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import { LaggingPeers, type OnChange } from '../enforcement/lagging-peers.ts';
import { mergeReports } from '../enforcement/merge-reports.ts';
import type { OwnPoints } from '../enforcement/own-report.ts';
import type { Replicas } from '../enforcement/replicas.ts';
import {
  type EnforcementRow,
  peerOfReport,
  replicaOfReport,
  reportNamesOf,
  reportOf,
  reportsCollection,
} from '../enforcement/reports.ts';
import { isStopped } from '../enforcement/stop.ts';
import { peeringLease } from './peer-controller.ts';

export type EnforcementParts = Pick<PlaneContext, 'store' | 'clock' | 'resources'> & {
  readonly enforcement: OwnPoints;
  readonly replicas: Pick<Replicas, 'id' | 'all' | 'onChange'>;
};

const controllerName = 'peering-enforcement';
const leaseName = `${peeringLease}.enforcement`;
const peersReader = kindReader(federationPeerKind);

export function enforcementController(parts: EnforcementParts): Controller {
  const { store, clock, resources, enforcement, replicas } = parts;
  const peers = resources<FederationPeer>(federationPeerKind);
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection: federationPeerKind.plural }),
      new StoreSource({
        store,
        clock,
        collection: reportsCollection,
        keysOf: ({ name }) => [peerOfReport(name)],
      }),
      new LaggingPeers({
        store,
        clock,
        changes: () => [
          (listener) => replicas.onChange(listener),
          ...enforcement.remotes.map(
            (remote): OnChange =>
              (listener) =>
                remote.onChange(listener),
          ),
        ],
      }),
    ],
    reconcile: async (name) => {
      await removeReports(parts, name);
      const shown = peersReader.get(store, name);
      if (shown === undefined) return undefined;
      if (!jsonEquals(rowsOf(parts, shown) ?? [], shown.status?.enforcement ?? [])) {
        await peers.patchStatus(
          name,
          (peer) => {
            const { enforcement: _before, ...status } = peer.status ?? {};
            const rows = rowsOf(parts, peer);
            return { ...status, ...(rows === undefined ? {} : { enforcement: [...rows] }) };
          },
          { controller: controllerName },
        );
      }
      return undefined;
    },
  };
}

function rowsOf(
  { store, clock, enforcement, replicas }: EnforcementParts,
  peer: FederationPeer,
): readonly EnforcementRow[] | undefined {
  const { name } = peer.metadata;
  return mergeReports(
    peer,
    replicas.all.map((one) => ({
      replica: one.name,
      report: reportOf(store, one.id, name)?.report,
    })),
    enforcement.remotes.map((remote) => ({ kind: remote.kind, others: remote.others(name) })),
    clock.now(),
  );
}

/** Those of replicas that are gone, and all where the peer is not stopped. */
async function removeReports(
  { store, replicas }: Pick<EnforcementParts, 'store' | 'replicas'>,
  peer: string,
): Promise<void> {
  const found = peersReader.get(store, peer);
  const remaining = new Set(
    found !== undefined && isStopped(found) ? replicas.all.map(({ id }) => id) : [],
  );
  for (const name of reportNamesOf(store, peer)) {
    const replica = replicaOfReport(name);
    if (remaining.has(replica)) continue;
    const kept = reportOf(store, replica, peer);
    if (kept === undefined) continue;
    const place = { collection: reportsCollection, name };
    await commitFenced(store, {
      expect: [{ ...place, at: kept.revision }],
      delete: [place],
    }).catch((error: unknown) => {
      // The replica wrote or removed it meanwhile, and that change triggers the next run.
      if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
    });
  }
}
