// The objects that make a cluster a member of a cluster set: its claims and its Federation. Pure.

import { claimKeys, clusterClaimKind } from '../../api/kinds/cluster-claim.ts';
import {
  clustersGroup,
  type Federation,
  federationKind,
  federationName,
} from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { type Manifest, ownLabels } from '../../core/kube/manifests/manifest.ts';

type ListedMember = NonNullable<Federation['spec']['members']>[number];

/** As users write it: the API server adds defaults. */
export type MemberEntry = Partial<ListedMember> & Pick<ListedMember, 'clusterID'>;

export interface Membership {
  /** Unique in the cluster set. */
  readonly id: string;
  readonly clusterSet: string;
  readonly isSupervisor: boolean;
  /** The system namespace. */
  readonly namespace: string;
}

const apiVersion = `${clustersGroup}/${version}`;

export function claimManifests(membership: Membership): readonly Manifest[] {
  const { id, clusterSet, isSupervisor, namespace } = membership;
  const claim = (name: string, value: string): Manifest => ({
    apiVersion,
    kind: clusterClaimKind.kind,
    metadata: { name: name.toLowerCase(), labels: ownLabels },
    spec: { name, value },
  });
  return [
    claim(claimKeys.id, id),
    claim(claimKeys.clusterSet, clusterSet),
    claim(claimKeys.namespace, namespace),
    ...(isSupervisor ? [claim(claimKeys.supervisor, 'true')] : []),
  ];
}

/** Without members for a cluster that is no home of a supervisor. */
export function federationManifest(
  clusterSet: string,
  members: readonly MemberEntry[] = [],
): Manifest {
  return {
    apiVersion,
    kind: federationKind.kind,
    metadata: { name: federationName, labels: ownLabels },
    spec: { clusterSet, ...(members.length === 0 ? {} : { members }) },
  };
}

export interface EntryOptions {
  readonly endpointPrefixes?: readonly string[] | undefined;
  readonly routable?: boolean | undefined;
  readonly dns?: boolean | undefined;
}

/** What the options do not say stays as it is. */
export function memberEntry(
  clusterID: string,
  known: MemberEntry | undefined,
  { endpointPrefixes, routable, dns }: EntryOptions,
): MemberEntry {
  return {
    ...known,
    clusterID,
    ...(routable === undefined ? {} : { routable }),
    ...(dns === undefined ? {} : { dns }),
    ...(endpointPrefixes === undefined ? {} : { endpointPrefixes: [...endpointPrefixes] }),
  };
}
