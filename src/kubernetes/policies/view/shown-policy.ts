// What commands show of a federated policy: its newest version, and what each cluster has of it.

import type { OutcomeReason } from '../compile-policy.ts';
import type { Selection } from './selected-services.ts';
import type { Stamp } from '../stamp.ts';

export interface FederatedPolicyView {
  /** `keyOfPolicy`: RESOURCE.GROUP/NAMESPACE/NAME. */
  readonly key: string;
  readonly group: string;
  readonly resource: string;
  readonly kind: string;
  /** Empty for a policy of the whole cluster. */
  readonly namespace: string;
  readonly name: string;
  /** Of the newest version. None: no version counts, and the clusters say why. */
  readonly state: 'Live' | 'Deleted' | 'Ended' | 'None';
  readonly version?: ShownVersion;
  /** By cluster ID; one for each member of the cluster set. */
  readonly clusters: readonly PolicyInCluster[];
  /** Whether its rules select a federated Service. Absent where no cluster that can be read has its content. */
  readonly selection?: Selection;
}

export interface ShownVersion {
  /** The ID of the cluster of the last edit. */
  readonly origin: string;
  /** RFC 3339. */
  readonly edited: string;
  readonly stamp: Stamp;
  /** SHA-256 of its content. Empty unless it is live. */
  readonly hash: string;
}

export interface PolicyInCluster {
  readonly clusterID: string;
  /** Whether it has the newest version. Unknown: this site cannot read the cluster now. */
  readonly status: 'True' | 'False' | 'Unknown';
  /** Pending: its leader has not written the newest version yet. Or a reason of the member. */
  readonly reason: OutcomeReason | 'Pending' | (string & {});
  readonly message: string;
  /** What its record says, where it has one. */
  readonly holds?: { readonly state: string; readonly stamp?: Stamp };
}
