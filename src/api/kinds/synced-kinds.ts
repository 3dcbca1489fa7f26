// The kinds whose objects a site may take over from a Kubernetes cluster (`spec.sync` of Cluster). Left out are
// kinds that the site, an operator or a handshake creates: Site, Cluster, Agent and FederationPeer.

import type { Kind } from '../kind.ts';
import { federationGrantKind } from './federation-grant.ts';
import { joinTokenKind } from './join-token.ts';
import { roleKind } from './role.ts';
import { roleBindingKind } from './role-binding.ts';
import { serviceOfferKind } from './service-offer.ts';
import { spiffeFederationKind } from './spiffe-federation.ts';
import { workloadEntryKind } from './workload-entry.ts';

export const syncedKindNames = [
  'SPIFFEFederation',
  'JoinToken',
  'WorkloadEntry',
  'FederationGrant',
  'ServiceOffer',
  'Role',
  'RoleBinding',
] as const;

export type SyncedKindName = (typeof syncedKindNames)[number];

export const syncedKinds: Readonly<Record<SyncedKindName, Kind>> = {
  SPIFFEFederation: spiffeFederationKind,
  JoinToken: joinTokenKind,
  WorkloadEntry: workloadEntryKind,
  FederationGrant: federationGrantKind,
  ServiceOffer: serviceOfferKind,
  Role: roleKind,
  RoleBinding: roleBindingKind,
};
