// For tests only: the rotation of a site with an in-memory store and virtual time. A test writes the
// receipts of its peers.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { AuthorityKind } from '../../core/identity/authority/phases.ts';
import type { AuthorityOptions } from '../../core/identity/authority/authority.ts';
import { BundlePublisher, lastPublished } from '../../core/identity/bundle/published-bundle.ts';
import { testSite } from '../../core/identity/authority/test-vault.ts';
import { openStore } from '../../core/store/open.ts';
import { peersCollection } from './receipts.ts';
import type { RotationSettings } from '../settings.ts';
import { Rotation } from './rotation.ts';
import { rotationController } from '../controllers/rotation-controller.ts';
import { rotationRoutes } from './rotation-routes.ts';
import { silentLog } from '../../core/log/test-log.ts';

export async function rotationSite(
  settings: RotationSettings = { spreadSeconds: 600, receiptDeadlineSeconds: 86_400 },
  options: Partial<AuthorityOptions> = {},
) {
  const clock = new VirtualClock();
  const { authority, vault } = await testSite('lubeck.example', { ...options, clock });
  const store = await openStore({ driver: 'memory' }, { clock });
  const audited: AuditDraft[] = [];
  const audit = {
    record: (draft: AuditDraft) => {
      audited.push(draft);
      return { encode: () => Buffer.from('{}') };
    },
    deny: () => undefined,
    later: () => undefined,
  };
  const publisher = new BundlePublisher(store, authority);
  await publisher.current();
  const rotation = new Rotation(
    { trustDomain: authority.trustDomain, store, clock, authority },
    settings,
  );
  const parts = { store, clock, audit, authority, publisher, rotation };
  const controller = rotationController(parts);
  const signal = new AbortController().signal;
  return {
    clock,
    store,
    vault,
    authority,
    publisher,
    rotation,
    controller,
    audited,
    routes: rotationRoutes(parts),
    phases: (kind: AuthorityKind = 'x509') =>
      authority.authorities.filter((one) => one.kind === kind).map(({ state }) => state),
    /** Runs until no step is due; returns when the next one is. */
    settle: async (kind: AuthorityKind = 'x509'): Promise<number> => {
      for (;;) {
        const result = await controller.reconcile(kind, { signal, epoch: 1, log: silentLog });
        const { requeueAfterMs = 1 } = result ?? {};
        if (requeueAfterMs > 1) return requeueAfterMs;
      }
    },
    /** A peer in this state, which holds the current bundle or not. */
    peer: async (
      name: string,
      state: NonNullable<NonNullable<FederationPeer['status']>['state']>,
      holds: 'current' | 'nothing' | 'sequence' | 'later',
      /** Why it did not answer the newest heartbeat. */
      unreachable?: 'Refused' | 'NoAnswer',
    ): Promise<void> => {
      const { hash = '', sequence = 0 } = lastPublished(store) ?? {};
      const at = timestamp(clock.now());
      const receipt = {
        sequence: holds === 'later' ? sequence + 7 : sequence,
        hash: holds === 'current' ? hash : 'f'.repeat(64),
        at,
      };
      const status = {
        state,
        since: at,
        ...(holds === 'nothing' ? {} : { receipt }),
        ...(unreachable && {
          conditions: [{ type: 'Reachable', status: 'False', reason: unreachable }],
        }),
      };
      await store.commit({
        put: [
          {
            collection: peersCollection,
            name,
            encode: () => Buffer.from(JSON.stringify({ metadata: { name }, spec: {}, status })),
          },
        ],
      });
    },
  };
}
