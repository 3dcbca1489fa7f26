// Reports which enforcement points of this process, and which agents that are connected to it, already
// reject a suspended or revoked peer. Runs in every replica, and each writes only its own reports.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import { LaggingPeers, type OnChange } from '../enforcement/lagging-peers.ts';
import { ownReport } from '../enforcement/own-report.ts';
import {
  peerOfReport,
  replicaOfReport,
  reportName,
  reportOf,
  reportsCollection,
} from '../enforcement/reports.ts';
import { isStopped } from '../enforcement/stop.ts';
import type { EnforcementParts } from './enforcement-controller.ts';

/** How soon to ask a pending point of this process again. It takes a few milliseconds as a rule. */
const askAgainMs = 100;

const peersReader = kindReader(federationPeerKind);

export function enforcementReportController(
  parts: Pick<EnforcementParts, 'store' | 'clock' | 'enforcement' | 'replicas'>,
): Controller {
  const { store, clock, enforcement, replicas } = parts;
  return {
    name: 'peering-enforcement-reports',
    parallelism: 4,
    sources: [
      new StoreSource({ store, clock, collection: federationPeerKind.plural }),
      // Of peers that were deleted while this replica did not run.
      new StoreSource({
        store,
        clock,
        collection: reportsCollection,
        keysOf: ({ name }) => (replicaOfReport(name) === replicas.id ? [peerOfReport(name)] : []),
      }),
      new LaggingPeers({
        store,
        clock,
        changes: () =>
          enforcement.remotes.map(
            (remote): OnChange =>
              (listener) =>
                remote.onChange(listener),
          ),
      }),
    ],
    reconcile: async (name) => {
      const peer = peersReader.get(store, name);
      const kept = reportOf(store, replicas.id, name);
      const place = { collection: reportsCollection, name: reportName(replicas.id, name) };
      const expect = [{ ...place, at: kept?.revision ?? ('absent' as const) }];
      if (peer === undefined || !isStopped(peer)) {
        if (kept !== undefined) await commitFenced(store, { expect, delete: [place] });
        return undefined;
      }
      const report = ownReport(peer, enforcement, kept?.report, clock.now());
      if (kept === undefined || !jsonEquals(report, kept.report)) {
        const bytes = Buffer.from(JSON.stringify(report));
        await commitFenced(store, { expect, put: [{ ...place, encode: () => bytes }] });
      }
      const lags = report.points.some(({ state }) => state === 'pending');
      return lags ? { requeueAfterMs: askAgainMs } : undefined;
    },
  };
}
