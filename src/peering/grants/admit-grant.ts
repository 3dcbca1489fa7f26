// Admission rules for a FederationGrant that its schema cannot express. A grant that allows nothing
// yet gets a warning. Pure.

import { clusterKind } from '../../api/kinds/cluster.ts';
import {
  type FederationGrant,
  federationGrantKind,
  grantTargetFields,
} from '../../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import { group, type Resource } from '../../api/object.ts';
import { Prefix } from '../../api/values/prefix.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Store } from '../../core/store/store.ts';
import { admitsSite, matchesNothing, siteNotNamed } from './grant-conditions.ts';

/** Services are objects in clusters, so the store does not have them. */
const checkedTargets = [
  { field: grantTargetFields.offer, kind: serviceOfferKind },
  { field: grantTargetFields.cluster, kind: clusterKind },
] as const;

type Spec = FederationGrant['spec'];

/** Throws HANSA_INVALID. Does not check values again that `live` already has. */
export function admitGrant(
  grant: Pick<Resource, 'metadata' | 'spec'>,
  live: Pick<Resource, 'spec'> | undefined,
  store: Pick<Store, 'get'>,
  warn: (text: string) => void,
): void {
  const { name } = grant.metadata;
  const spec = grant.spec as Spec;
  const before = live?.spec as Spec | undefined;
  const samePeer = before?.peer === spec.peer;
  const refuse = (field: string, why: string): never => {
    const message = `Invalid value: ${why}`;
    const { kind } = federationGrantKind;
    throw new HansaError(
      'HANSA_INVALID',
      `${kind}.${group} "${name}" is invalid: ${field}: ${message}`,
      { details: { group, kind, name, causes: [{ reason: 'FieldValueInvalid', message, field }] } },
    );
  };
  for (const [at, id] of (spec.nodeInstances?.ids ?? []).entries()) {
    if (samePeer && before.nodeInstances?.ids?.includes(id) === true) continue;
    const problem = identityProblem(id, spec.peer);
    if (problem !== undefined) refuse(`spec.nodeInstances.ids[${at}]`, problem);
  }
  for (const [at, cidr] of (spec.sourceCIDRs?.cidrs ?? []).entries()) {
    if (before?.sourceCIDRs?.cidrs?.includes(cidr) === true) continue;
    const problem = Prefix.problem(cidr);
    if (problem !== undefined) refuse(`spec.sourceCIDRs.cidrs[${at}]`, `${cidr}: ${problem}`);
  }
  if (store.get(federationPeerKind.plural, spec.peer) === undefined) {
    warn(
      `spec.peer: ${spec.peer} is not a peer of this site yet; until then the grant allows nothing`,
    );
  }
  const nothing = matchesNothing(spec);
  if (nothing !== undefined) warn(`the grant allows nothing: ${nothing}`);
  if ((spec.clusters ?? []).length > 0 && !admitsSite(spec)) {
    warn(`spec.clusters: ${siteNotNamed(spec.peer)}`);
  }
  for (const { field, kind } of checkedTargets) {
    for (const target of spec[field] ?? []) {
      if (store.get(kind.plural, target) !== undefined) continue;
      warn(
        `spec.${field}: this site has no ${kind.kind} ${target} yet; until then the grant does not include it`,
      );
    }
  }
}

function identityProblem(id: string, peer: string): string | undefined {
  try {
    const { trustDomain } = SpiffeId.parse(id);
    if (trustDomain.name === peer) return undefined;
    return `${id} is in the trust domain ${trustDomain.name}, but the grant is for ${peer}`;
  } catch (caught) {
    if (caught instanceof HansaError) return caught.message;
    throw caught;
  }
}
