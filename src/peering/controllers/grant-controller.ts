// Sets the conditions of every FederationGrant: after a change of the grant, of its peer, of an
// offer or of a cluster, and when it expires.

import { clusterKind } from '../../api/kinds/cluster.ts';
import {
  type FederationGrant,
  type GrantTargetType,
  federationGrantKind,
} from '../../api/kinds/federation-grant.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { setCondition } from '../../core/reconcile/conditions.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import { grantConditions, grantEndsAtMs } from '../grants/grant-conditions.ts';
import { peeringLease } from './peer-controller.ts';

type Parts = Pick<PlaneContext, 'store' | 'clock' | 'resources'>;

const reader = kindReader(federationGrantKind);
const controllerName = 'peering-grants';
const leaseName = `${peeringLease}.grants`;

export function grantController({ store, clock, resources }: Parts): Controller {
  const { collection } = reader;
  const grants = resources<FederationGrant>(federationGrantKind);
  const peers = resources<FederationPeer>(federationPeerKind);
  const grantsWhere = (concerns: (spec: FederationGrant['spec']) => boolean) =>
    store
      .list(collection)
      .entries.filter((entry) => concerns(reader.of(entry).spec))
      .map(({ name }) => name);
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection }),
      new StoreSource({
        store,
        clock,
        collection: federationPeerKind.plural,
        keysOf: ({ name }) => grantsWhere(({ peer }) => peer === name),
      }),
      new StoreSource({
        store,
        clock,
        collection: serviceOfferKind.plural,
        keysOf: ({ name }) => grantsWhere(({ offers }) => offers?.includes(name) === true),
      }),
      new StoreSource({
        store,
        clock,
        collection: clusterKind.plural,
        keysOf: ({ name }) => grantsWhere(({ clusters }) => clusters?.includes(name) === true),
      }),
    ],
    reconcile: async (name, { epoch }) => {
      const nowMs = clock.now();
      const looked = await grants.get(name);
      if (looked === undefined) return undefined;
      const peer = await peers.get(looked.spec.peer);
      const hasTarget = (type: GrantTargetType, target: string): boolean => {
        if (type === 'service') return true;
        const { plural } = type === 'offer' ? serviceOfferKind : clusterKind;
        return store.get(plural, target) !== undefined;
      };
      const fence = epoch === undefined ? {} : { fence: { lease: leaseName, epoch } };
      await grants.patchStatus(
        name,
        (grant) => {
          let conditions = grant.status?.conditions;
          for (const condition of grantConditions(grant, { peer, hasTarget, nowMs })) {
            conditions = setCondition(conditions, condition, nowMs);
          }
          return { ...grant.status, ...(conditions === undefined ? {} : { conditions }) };
        },
        { controller: controllerName, ...fence },
      );
      const endsAtMs = grantEndsAtMs(looked);
      return endsAtMs === undefined || endsAtMs <= nowMs
        ? undefined
        : { requeueAfterMs: endsAtMs - nowMs };
    },
  };
}
