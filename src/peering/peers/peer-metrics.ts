// Metrics about the peers of a site, read from the store when they are scraped.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { clockCondition } from './clock-skew.ts';
import { capabilitiesCondition, driftOf } from './feature-drift.ts';
import { peersCollection } from './peer-repository.ts';
import { isLive, peerTransitions } from './peer-states.ts';

const peersReader = kindReader(federationPeerKind);

const states = new Set(peerTransitions.flatMap(({ from, to }) => [from, to]));

export function observePeers(metrics: Metrics, store: Store, now: () => number): void {
  const statuses = () =>
    store.list(peersCollection).entries.map((entry) => {
      const { name } = entry;
      const facts = store.facts.get(peersCollection, name);
      const { status } = withLiveStatus(federationPeerKind, peersReader.of(entry), facts);
      return { name, status };
    });
  metrics.observe({ name: 'hansa_peers', help: 'Peers by state.', labels: ['state'] }, (report) => {
    const counts = new Map<string, number>();
    for (const { status } of statuses()) {
      const state = status?.state ?? 'unknown';
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    for (const state of states) {
      if (state !== 'state before') report({ state }, counts.get(state) ?? 0);
    }
  });
  metrics.observe(
    {
      name: 'hansa_peer_silent_seconds',
      help: 'Seconds since the last heartbeat of each live peer, in either direction.',
      labels: ['peer'],
    },
    (report) => {
      for (const { name, status } of statuses()) {
        const at = status?.lastHeartbeatAt;
        // This site expects nothing from a peer that it suspended or revoked.
        if (at !== undefined && isLive(status?.state))
          report({ peer: name }, (now() - Date.parse(at)) / 1000);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_peer_clock_skew_seconds',
      help: 'How far the clock of each peer is ahead of that of this site. Negative if it is behind.',
      labels: ['peer'],
    },
    (report) => {
      for (const { name, status } of statuses()) {
        const { clock } = status ?? {};
        if (clock !== undefined) report({ peer: name }, clock.skewMilliseconds / 1000);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_peer_clock_in_sync',
      help: '1 if the clock of the peer is within peering.maxClockSkewSeconds of that of this site, else 0.',
      labels: ['peer'],
    },
    (report) => {
      for (const { name, status } of statuses()) {
        const condition = findCondition(status?.conditions, clockCondition);
        if (condition !== undefined && isLive(status?.state))
          report({ peer: name }, condition.status === 'True' ? 1 : 0);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_peer_capability_drift',
      help: 'How many capabilities and extensions the peer no longer reports (lost), or reports without agreement (gained).',
      labels: ['peer', 'change'],
    },
    (report) => {
      for (const { name, status } of statuses()) {
        if (findCondition(status?.conditions, capabilitiesCondition) === undefined) continue;
        const drift = driftOf(status ?? {}, status?.reported);
        report({ peer: name, change: 'lost' }, drift?.lost.length ?? 0);
        report({ peer: name, change: 'gained' }, drift?.gained.length ?? 0);
      }
    },
  );
}
