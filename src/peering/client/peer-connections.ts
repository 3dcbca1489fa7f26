// The kept connections to peers: this site calls only live peers, and gives every connection up when
// it gets a new certificate. controllers/connection-controller.ts reports changes of trust.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { KeptConnections } from '../../core/identity/tls/kept-connections.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { kindReader } from '../../core/store/reader.ts';
import { isLive } from '../peers/peer-states.ts';

const peers = kindReader(federationPeerKind);

export interface PeerConnections {
  readonly connections: KeptConnections;
  readonly stop: () => void;
}

export function peerConnections(
  context: Pick<
    PlaneContext,
    'transport' | 'clock' | 'store' | 'heldBundles' | 'credentials' | 'metrics'
  >,
): PeerConnections {
  const { transport, clock, store, heldBundles, credentials, metrics } = context;
  const connections = new KeptConnections({
    transport,
    clock,
    // Peers keep calling each other while a bundle is stale.
    bundles: heldBundles,
    mayCall: (name) => isLive(peers.get(store, name)?.status?.state),
  });
  const unhook = credentials.onRenewal(() => connections.retireAll());
  metrics.observe(
    { name: 'hansa_peer_connections', help: 'Open connections to peers.' },
    (report) => report({}, connections.size),
  );
  metrics
    .counter({
      name: 'hansa_peer_connections_opened_total',
      help: 'Connections that this site opened to peers. Most calls reuse an open one.',
    })
    .source((report) => report({}, connections.opened));
  return {
    connections,
    stop: () => {
      unhook();
      connections.stop();
    },
  };
}
