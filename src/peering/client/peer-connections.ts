// The kept connections to peers: this site calls only live peers, and gives every connection up when
// it gets a new certificate. controllers/connection-controller.ts reports changes of trust.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { KeptConnections } from '../../core/identity/tls/kept-connections.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { kindReader } from '../../core/store/reader.ts';
import { distrustOf } from '../peers/peer-states.ts';
import { planeCallLimits } from './call-peer.ts';

const peers = kindReader(federationPeerKind);

export interface PeerConnections {
  /** For heartbeats and announcements, which keep a peering alive, and nothing else. */
  readonly connections: KeptConnections;
  /** For all other calls. */
  readonly planeConnections: KeptConnections;
  readonly stop: () => void;
}

export function peerConnections(
  context: Pick<
    PlaneContext,
    'transport' | 'clock' | 'store' | 'heldBundles' | 'credentials' | 'metrics'
  >,
): PeerConnections {
  const { transport, clock, store, heldBundles, credentials, metrics } = context;
  const parts = {
    transport,
    clock,
    // Peers keep calling each other while a bundle is stale.
    bundles: heldBundles,
    mayCall: (name: string) => {
      const peer = peers.get(store, name);
      return peer !== undefined && distrustOf(peer) === undefined;
    },
  };
  const connections = new KeptConnections(parts);
  const planeConnections = new KeptConnections({ ...parts, limits: planeCallLimits });
  const both = [connections, planeConnections];
  const unhook = credentials.onRenewal(() => {
    for (const each of both) each.retireAll();
  });
  metrics.observe(
    { name: 'hansa_peer_connections', help: 'Open connections to peers.' },
    (report) => report({}, connections.size + planeConnections.size),
  );
  metrics
    .counter({
      name: 'hansa_peer_connections_opened_total',
      help: 'Connections that this site opened to peers. Most calls reuse an open one.',
    })
    .source((report) => report({}, connections.opened + planeConnections.opened));
  return {
    connections,
    planeConnections,
    stop: () => {
      unhook();
      for (const each of both) each.stop();
    },
  };
}
