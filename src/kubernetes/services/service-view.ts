// What commands show of a federated Service: its members, its copies, and what is wrong with them.

import type { Protocol } from '../objects.ts';

export interface FederatedServiceView {
  /** `keyOfRef`: NAMESPACE/NAME, *\/NAME for a global one, NAMESPACE/NAME.clusterset for an exported one. */
  readonly key: string;
  readonly scope: 'global' | 'namespaced' | 'exported';
  /** Of the copies. */
  readonly namespace: string;
  readonly name: string;
  readonly ports: readonly {
    readonly name: string;
    readonly port: number;
    readonly protocol: Protocol;
  }[];
  /** The oldest first, which decides about ports. */
  readonly members: readonly MemberServiceView[];
  /** How many younger ones are not shown, where there are any. */
  readonly moreMembers?: number;
  /** One for each member of the cluster set, by cluster ID. */
  readonly copies: readonly CopyView[];
  readonly names: NamesView;
}

/** DNS names for clients outside of the clusters. */
export interface NamesView {
  /** On the copies, for ExternalDNS. */
  readonly carried: readonly {
    readonly clusterID: string;
    readonly hostnames: readonly string[];
    /** Empty: ExternalDNS publishes nothing. */
    readonly targets: readonly string[];
  }[];
  /** What the first member Service was told that has no name, or not each of its names. */
  readonly problem: { readonly clusterID: string; readonly message: string } | undefined;
}

export interface MemberServiceView {
  readonly clusterID: string;
  readonly namespace: string;
  readonly name: string;
  readonly kind: 'Service' | 'NativeService';
  readonly type:
    | 'ClusterIP'
    | 'Headless'
    | 'NodePort'
    | 'LoadBalancer'
    | 'ExternalName'
    | 'NativeService'
    | 'VirtualMachines';
  /** Whether its own cluster gets a ready endpoint from it. */
  readonly isReady: boolean;
  /** Ready ones that other clusters may get. Names of load balancers count as one each. */
  readonly endpoints: number;
  /** As in the condition of the member Service. */
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
}

export interface CopyView {
  readonly clusterID: string;
  /** Ready endpoints in its slices. */
  readonly endpoints: number;
  /** The clusters that the endpoints come from. */
  readonly from: readonly string[];
  /** Unknown: this site cannot read the cluster now. */
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}
