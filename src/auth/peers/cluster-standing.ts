// Whether this site may use a cluster of a peer now, according to the store: it trusts the peer, and the peer has not
// said that it does not grant the cluster. Quick and without I/O, because every review asks.

import { enrolmentOf } from '../../api/enrolment.ts';
import { peerDistrust } from '../../api/grants.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import type { PeerCluster } from '../clusters/reviewed-cluster.ts';

export const peersCollection = federationPeerKind.plural;

/** `peering` is the enrolment of the peer: what a peer gave ends with it, also if the same site is invited again. */
export type ClusterStanding =
  | { readonly peering: string }
  | { readonly reason: 'PeerUntrusted' | 'NotGranted'; readonly problem: string };

interface KnownPeer {
  readonly enrolment: string;
  readonly distrust: string | undefined;
  /** The peer ended the trust in this site: it suspended or revoked it. */
  readonly isRefused: boolean;
  /** Those that the peer grants. Undefined: it does not say, and refuses this site where it asks without a grant. */
  readonly clusters: ReadonlySet<string> | undefined;
}

const peers = kindReader(federationPeerKind).derive(
  ({ metadata, spec, status }): KnownPeer => ({
    enrolment: enrolmentOf({ metadata, ...(status === undefined ? {} : { status }) }),
    distrust: peerDistrust(metadata.name, { spec, ...(status === undefined ? {} : { status }) }),
    isRefused: status?.cause === 'Refused',
    clusters: status?.clusters && new Set(status.clusters),
  }),
);

export function clusterStanding(
  store: Pick<Store, 'get'>,
  { trustDomain, cluster }: PeerCluster,
): ClusterStanding {
  const peer = peers.get(store, trustDomain);
  if (peer === undefined) {
    return {
      reason: 'PeerUntrusted',
      problem: `${trustDomain} is not a peer of this site. Invite it, or accept its invitation.`,
    };
  }
  if (peer.distrust !== undefined) {
    return {
      reason: 'PeerUntrusted',
      problem: `${peer.distrust}. To see why: hansa peer show ${trustDomain}`,
    };
  }
  if (peer.isRefused) {
    return {
      reason: 'NotGranted',
      problem: `${trustDomain} rejects this site. To see why: hansa peer show ${trustDomain}`,
    };
  }
  if (peer.clusters?.has(cluster) === false) {
    return {
      reason: 'NotGranted',
      problem: `${trustDomain} does not grant its cluster ${cluster} to this site. Ask its operator for a grant with the scope read.`,
    };
  }
  return { peering: peer.enrolment };
}
