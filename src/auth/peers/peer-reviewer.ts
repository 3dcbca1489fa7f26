// Asks the site of a peer about tokens of one of its clusters, in the form in which API servers are asked. The site
// reviews with its own modes, so it knows deleted Pods. It sees the token, which its own keys signed.

import type { CallPeer } from '../../core/plane/call-peer.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import type { PeerCluster, Upstream } from '../clusters/reviewed-cluster.ts';
import { clusterReviewsPath, readReviewMessage } from './review-message.ts';

/** As for API servers. */
const timeoutMs = 5_000;
const maxBytes = 64 * 1024;

export function peerReviewer(callPeer: CallPeer, peer: PeerCluster): Upstream {
  return {
    request: async (request) => {
      const answer = await callPeer(peer.trustDomain, {
        method: 'POST',
        path: pathTo(clusterReviewsPath, { cluster: peer.cluster }),
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        body: Buffer.from(JSON.stringify(request.body)),
        timeoutMs: request.timeoutMs ?? timeoutMs,
        maxBytes: request.maxBytes ?? maxBytes,
        signal: request.signal,
      });
      if (answer.status !== 200) return answer;
      return { ...answer, body: readReviewMessage(answer.body, peer.cluster) };
    },
  };
}
