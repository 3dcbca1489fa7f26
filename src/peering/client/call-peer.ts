// Calls to peers on behalf of other planes, over connections of their own: however many of these calls wait, those
// that keep the peering alive do not.

import { peerDistrust } from '../../api/grants.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KeptConnections, KeptLimits } from '../../core/identity/tls/kept-connections.ts';
import { defaultKeptLimits } from '../../core/identity/tls/kept-connections.ts';
import type { CallPeer } from '../../core/plane/call-peer.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { pathBelow } from '../handshake/acceptor.ts';

const peers = kindReader(federationPeerKind);

/** Other planes send many small questions, such as token reviews, so some connections to a busy peer stay open. */
export const planeCallLimits: KeptLimits = {
  ...defaultKeptLimits,
  maxIdlePerSite: 8,
  maxCallsPerSite: 64,
};

export function callPeer({
  store,
  connections,
}: {
  readonly store: Pick<Store, 'get'>;
  readonly connections: Pick<KeptConnections, 'call'>;
}): CallPeer {
  return async (name, { maxBytes, timeoutMs, signal, ...request }) => {
    const peer = peers.get(store, name);
    const distrust = peerDistrust(name, peer);
    if (peer === undefined || distrust !== undefined) {
      throw new HansaError(
        'HANSA_PEER_UNTRUSTED',
        `Cannot call ${name}: ${distrust}. To see why: hansa peer show ${name}`,
      );
    }
    const url = new URL(peer.spec.url);
    return connections.call(
      { trustDomain: TrustDomain.parse(name), url },
      { ...request, path: pathBelow(url, request.path) },
      { maxBytes, timeoutMs, idempotent: true, ...(signal === undefined ? {} : { signal }) },
    );
  };
}
