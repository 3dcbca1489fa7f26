// Fetches the keys of a cluster from the site of a peer. The answer is hostile: it counts only if it is about the
// cluster that this site asked about, and only for that cluster.

import { excerpt } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { TransportResponse } from '../../core/identity/tls/transport.ts';
import type { CallPeer } from '../../core/plane/call-peer.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import type { Store } from '../../core/store/store.ts';
import type { PeerCluster } from '../clusters/reviewed-cluster.ts';
import { type FoundKeys, readJwks } from '../keys/jwks.ts';
import { endOfKeys, problem } from '../keys/key-failure.ts';
import { type ClusterStanding, clusterStanding } from './cluster-standing.ts';
import { clusterKeysPath, maxKeysMessageBytes, readKeysMessage } from './keys-message.ts';

/** The peer may fetch the keys for the answer, for which it takes half of this time. */
const timeoutMs = 10_000;

export interface PeerKeys {
  /** Quick and without I/O. */
  standing(peer: PeerCluster): ClusterStanding;
  /** Rejects with an error that `failureOf` understands, or with the reason of the signal. */
  fetch(peer: PeerCluster, issuer: string, signal: AbortSignal): Promise<FoundKeys>;
}

export interface PeerKeysParts {
  readonly store: Pick<Store, 'get'>;
  readonly callPeer: CallPeer;
  /** The SPIFFE ID of this site, which a grant must admit. */
  readonly site: string;
}

export function peerKeys({ store, callPeer, site }: PeerKeysParts): PeerKeys {
  const standing = (peer: PeerCluster): ClusterStanding => clusterStanding(store, peer);
  return {
    standing,
    fetch: async (peer, issuer, signal) => {
      const found = standing(peer);
      if ('problem' in found) throw endOfKeys(found.reason, found.problem);
      let answer: TransportResponse;
      try {
        answer = await callPeer(peer.trustDomain, {
          method: 'GET',
          path: pathTo(clusterKeysPath, { cluster: peer.cluster }),
          headers: { accept: 'application/json' },
          maxBytes: maxKeysMessageBytes,
          timeoutMs,
          signal,
        });
      } catch (caught) {
        throw failedCall(peer, caught);
      }
      checkStatus(answer.status, peer, site);
      return read(answer.body, peer, issuer);
    },
  };
}

export function peerName({ cluster, trustDomain }: PeerCluster): string {
  return `cluster ${cluster} of ${trustDomain}`;
}

function failedCall({ trustDomain }: PeerCluster, caught: unknown): unknown {
  if (!(caught instanceof HansaError)) return caught;
  switch (caught.code) {
    case 'HANSA_PEER_UNTRUSTED':
      return endOfKeys('PeerUntrusted', caught.message);
    case 'HANSA_CERTIFICATE_INVALID':
    case 'HANSA_TOO_LARGE':
      return caught;
    default:
      return problem(
        'Unreachable',
        `The site of ${trustDomain} does not answer: ${caught.message}`,
      );
  }
}

/** A peer that refuses ends what it gave before. One that cannot answer does not. */
function checkStatus(status: number, peer: PeerCluster, site: string): void {
  const { cluster, trustDomain } = peer;
  switch (status) {
    case 200:
      return;
    case 401:
    case 403:
      throw endOfKeys(
        'NotGranted',
        `${trustDomain} denies its cluster ${cluster} to this site (HTTP ${status}). Ask its operator for a grant that names the cluster ${cluster} and ${site}, with the scope read.`,
      );
    case 404:
      throw endOfKeys(
        'NotGranted',
        `${trustDomain} has no cluster ${cluster} of its own, or runs a version that gives peers no keys (HTTP 404). To see what it grants: hansa peer catalog ${trustDomain}`,
      );
    case 429:
      throw problem(
        'UnexpectedStatus',
        `${trustDomain} answers that this site asks too often (HTTP 429).`,
      );
    case 503:
      throw problem(
        'UnexpectedStatus',
        `${trustDomain} has no keys of its cluster ${cluster} now (HTTP 503). Its operator sees why: hansa cluster check ${cluster}`,
      );
    default:
      throw problem('UnexpectedStatus', `${trustDomain} answers with HTTP status ${status}.`);
  }
}

function read(body: Buffer, peer: PeerCluster, issuer: string): FoundKeys {
  const { trustDomain, cluster } = peer;
  try {
    const told = readKeysMessage(body);
    if (told.cluster !== cluster) {
      throw problem(
        'AnotherCluster',
        `${trustDomain} answers for its cluster ${excerpt(told.cluster)}, but this site asked about ${cluster}. The site does not use the answer. Ask the operator of ${trustDomain} why.`,
      );
    }
    if (told.issuer !== issuer) {
      throw problem(
        'IssuerMismatch',
        `${trustDomain} calls the issuer of its cluster ${cluster} ${excerpt(told.issuer)}, but the Cluster has ${excerpt(issuer)}. If that is the issuer, set spec.issuer to it.`,
      );
    }
    return { found: readJwks(body, maxKeysMessageBytes), ageMs: told.ageSeconds * 1000 };
  } catch (caught) {
    if (!(caught instanceof TypeError)) throw caught;
    throw problem('InvalidKeys', `${trustDomain} sends an unusable answer: ${caught.message}.`);
  }
}
