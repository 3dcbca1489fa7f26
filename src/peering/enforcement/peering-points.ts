// The enforcement points of the peering plane itself.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import type { KeptConnections } from '../../core/identity/tls/kept-connections.ts';
import type { EnforcementPoint } from '../../core/plane/enforcement.ts';
import { receivedReader } from '../../core/spire-bundles/records.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { distrustOf } from '../peers/peer-states.ts';

const peers = kindReader(federationPeerKind);

export function peeringPoints(parts: {
  readonly store: Pick<Store, 'get'>;
  readonly connections: readonly Pick<KeptConnections, 'has'>[];
}): readonly EnforcementPoint[] {
  const { store, connections } = parts;
  const isDistrusted = (name: string): boolean => {
    const peer = peers.get(store, name);
    return peer === undefined || distrustOf(peer) !== undefined;
  };
  return [
    { name: 'api', refuses: isDistrusted },
    {
      name: 'connections',
      refuses: (name) => isDistrusted(name) && connections.every((each) => !each.has(name)),
    },
    {
      // Those that the peer sent for SPIRE servers of this site.
      name: 'spire-bundles',
      refuses: (name) => receivedReader.get(store, name) === undefined,
    },
  ];
}
