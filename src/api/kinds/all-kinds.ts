// Every kind of Hansa, one file each beside this one. A kind is declared here once; nothing in
// this folder computes, and nothing here knows who serves or reconciles the kind.

import type { Kind } from '../kind.ts';
import { federationGrantKind } from './federation-grant.ts';
import { federationPeerKind } from './federation-peer.ts';
import { joinTokenKind } from './join-token.ts';
import { roleKind } from './role.ts';
import { roleBindingKind } from './role-binding.ts';
import { serviceOfferKind } from './service-offer.ts';
import { siteKind } from './site.ts';
import { spiffeFederationKind } from './spiffe-federation.ts';
import { workloadEntryKind } from './workload-entry.ts';

export const allKinds: readonly Kind[] = [
  siteKind,
  roleKind,
  roleBindingKind,
  spiffeFederationKind,
  workloadEntryKind,
  joinTokenKind,
  federationPeerKind,
  federationGrantKind,
  serviceOfferKind,
];
