// Rotates the authorities automatically, on one replica of the site. Every step is a compare-and-set on
// the record of the authorities, so a replica that lost its lease cannot repeat a step.

import { authorityAudit, rotationActor } from '../../core/identity/authority/audit.ts';
import type { AuthorityKind } from '../../core/identity/authority/phases.ts';
import type { BundlePublisher } from '../../core/identity/bundle/published-bundle.ts';
import { toHansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { Controller, ReconcileResult } from '../../core/reconcile/controller.ts';
import { changeSource, StoreSource } from '../../core/reconcile/source.ts';
import { peersCollection } from '../rotation/receipts.ts';
import { kinds, type Rotation } from '../rotation/rotation.ts';
import { noteRotation, rotationCollection, rotationRecord } from '../rotation/rotation-request.ts';

/** Wall time can jump and timers do not follow, so the controller checks at least this often. */
const lookEveryMs = 600_000;

export type RotationParts = Pick<PlaneContext, 'store' | 'clock' | 'audit' | 'authority'> & {
  readonly publisher: BundlePublisher;
  readonly rotation: Rotation;
};

export function rotationController(parts: RotationParts): Controller {
  const { store, clock, authority, rotation } = parts;
  return {
    name: 'rotation',
    lease: 'controller.rotation',
    // A 4096-bit RSA key takes seconds to generate, and an upstream key may be on a slow disk.
    timeoutMs: 120_000,
    sources: [
      // Here or at another replica.
      changeSource((changed) => authority.onChange(changed), kinds),
      new StoreSource({ store, clock, collection: rotationCollection }),
      // Receipts arrive with heartbeats. Other changes of a peer cost one reconciliation.
      new StoreSource({ store, clock, collection: peersCollection, keysOf: () => kinds }),
    ],
    reconcile: async (key, { log }) => {
      const kind = kinds.find((one) => one === key);
      if (kind === undefined) return undefined;
      try {
        const result = await step(parts, kind, log);
        rotation.noteProblem(kind, undefined);
        return result;
      } catch (error) {
        rotation.noteProblem(kind, toHansaError(error).message);
        throw error;
      }
    },
  };
}

async function step(
  { store, clock, audit, authority, publisher, rotation }: RotationParts,
  kind: AuthorityKind,
  log: Log,
): Promise<ReconcileResult> {
  // The spread period starts at publication. A crash may have prevented it, so publish again.
  await publisher.current();
  const plan = rotation.plan(kind);
  if (plan.act === 'wait') {
    return { requeueAfterMs: Math.min(Math.max(plan.untilMs - clock.now(), 1), lookEveryMs) };
  }
  const { requested } = rotationRecord(store, kind);
  const asked = plan.act === 'activate' && requested?.id === plan.id;
  const why = asked ? `${plan.why} (by ${requested.by})` : plan.why;
  const tell = authorityAudit(audit, rotationActor, why);
  if (plan.act === 'prune') {
    const ids = await authority.prune(kind, tell);
    log.info('removed authorities from the bundle', { kind, ids });
  } else if (plan.act === 'prepare') {
    const { id } = await authority.prepare(kind, tell);
    log.info('prepared an authority', { kind, id, why });
  } else {
    const { id } = await authority.activate(kind, plan.id, tell);
    log.info('activated an authority', { kind, id, why });
    if (plan.unconfirmed.length > 0) {
      log.warn('rotation did not wait for the receipts of some peers', {
        kind,
        id,
        peers: plan.unconfirmed,
      });
      await noteRotation(store, kind, { unconfirmed: { id, peers: plan.unconfirmed } });
    }
  }
  return { requeueAfterMs: 1 };
}
