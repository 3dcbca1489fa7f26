// The epochs of one member: terms of its leaders, which only grow. This site remembers the highest one
// that it has seen, so that a deleted Lease or a restored etcd never repeats one.

import { createHash } from 'node:crypto';
import type { KubeLeaseTableOptions } from '../../core/kube/lease/kube-lease-table.ts';
import { epochIn, type LeaseRecord } from '../../core/kube/lease/kube-lease.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { commitUnfenced } from '../../core/lease/current-fence.ts';
import type { Store } from '../../core/store/store.ts';
import {
  epochAnnotation,
  epochFloorAnnotation,
  importRemovalCommand,
  leaseName,
  removalCommand,
} from '../names.ts';
import type { ObjectMeta } from '../objects.ts';
import { epochOf } from './fenced-writer.ts';

/** One record for each member: the highest epochs as decimal digits, first the one given, then the one seen. */
export const epochCollection = 'kubernetes.epochs';

export const epochKeys: KubeLeaseTableOptions['keys'] = {
  epoch: epochAnnotation,
  floor: epochFloorAnnotation,
};

/** Attempts to record an epoch while other replicas of the site do the same. */
const attempts = 5;

export class MemberEpochs {
  readonly #store: Store;
  readonly #clusterID: string;
  readonly #copies: () => Iterable<{ readonly metadata: ObjectMeta }>;
  readonly #slot: number;

  /** `copies` are the objects in the member that carry epochs. `trustDomain` is that of this site. */
  constructor(
    store: Store,
    clusterID: string,
    copies: () => Iterable<{ readonly metadata: ObjectMeta }>,
    trustDomain: string,
  ) {
    this.#slot = slotOf(trustDomain);
    this.#store = store;
    this.#clusterID = clusterID;
    this.#copies = copies;
  }

  /** The highest epoch that this site knows of. */
  get highest(): number {
    const { given, seen } = this.#known();
    return Math.max(given, seen);
  }

  /**
   * The highest epoch that was in use, as the Lease said. One that was only given may belong to an election that
   * was lost.
   */
  get seen(): number {
    return this.#known().seen;
  }

  /**
   * An epoch above all others. It is recorded when this resolves, unless it follows a forged one. Rejects with
   * HANSA_CONFLICT where there is none. O(copies).
   */
  async next(leased: number): Promise<number> {
    let highest = leased;
    for (const { metadata } of this.#copies()) highest = Math.max(highest, epochOf(metadata));
    const { given } = await this.#record((known) => ({
      given: above(Math.max(known.given, known.seen, highest), this.#slot),
      seen: known.seen,
    }));
    if (given <= highestEpoch) return given;
    throw new HansaError(
      'HANSA_CONFLICT',
      `No site can lead ${this.#clusterID}: an object there has the epoch ${highest}, and there is none above it. No site reaches it by itself, so it was forged. As an administrator of the cluster, delete the Lease ${leaseName} in the system namespace, and all copies, which the site then writes again: ${removalCommand}. Where the cluster serves them, delete ServiceImports of sites too (${importRemovalCommand}), and each ExternalEntity and PolicyRecord whose annotation ${epochAnnotation} has this epoch.`,
    );
  }

  /** Remembers what the Lease says. Resolves to the floor that the Lease must get, where it went back. */
  async observe({
    epoch,
    floor,
  }: Pick<LeaseRecord, 'epoch' | 'floor'>): Promise<number | undefined> {
    const { seen } = this;
    if (remembered(epoch, seen) > seen) {
      await this.#record((known) => ({ given: known.given, seen: Math.max(known.seen, epoch) }));
    }
    return epoch < seen && floor < seen ? seen : undefined;
  }

  #known(): KnownEpochs {
    const found = this.#store.get(epochCollection, this.#clusterID);
    const [given = '', seen = ''] = String(found?.value ?? '').split(' ');
    return { given: epochIn({ given }, 'given'), seen: epochIn({ seen }, 'seen') };
  }

  async #record(choose: (known: KnownEpochs) => KnownEpochs): Promise<KnownEpochs> {
    for (let attempt = 1; ; attempt++) {
      const found = this.#store.get(epochCollection, this.#clusterID);
      const known = this.#known();
      const chosen = choose(known);
      const given = remembered(chosen.given, known.given);
      const seen = remembered(chosen.seen, known.seen);
      try {
        await commitUnfenced(this.#store, {
          expect: [
            { collection: epochCollection, name: this.#clusterID, at: found?.revision ?? 'absent' },
          ],
          put: [
            {
              collection: epochCollection,
              name: this.#clusterID,
              encode: () => Buffer.from(`${given} ${seen}`),
            },
          ],
        });
        return chosen;
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT') || attempt === attempts) throw error;
      }
    }
  }
}

/**
 * Sites take their epochs from different slots, so that two of them do not take the same one, even if neither
 * knows what the other took. There are 10^11 epochs in a slot.
 */
export const slots = 10_000;

export function slotOf(trustDomain: string): number {
  return createHash('sha256').update(trustDomain).digest().readUInt32BE() % slots;
}

/** 15 digits, which are exact as a number everywhere. */
const highestEpoch = 999_999_999_999_999;

/**
 * No league gets here: that would take 30,000 years with one term each ten seconds. What is above was forged. It
 * counts while it is in the cluster. A site does not remember it, so that the cluster has a leader again when
 * somebody has deleted it there.
 */
export const mostRemembered = highestEpoch - 100_000 * slots;

const remembered = (epoch: number, before: number): number =>
  epoch > mostRemembered ? before : epoch;

function above(highest: number, slot: number): number {
  const next = highest - (highest % slots) + slot;
  return next > highest ? next : next + slots;
}

interface KnownEpochs {
  readonly given: number;
  readonly seen: number;
}
