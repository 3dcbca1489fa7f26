// The epochs of one member: terms of its leaders, which only grow. This site remembers the highest one
// that it has seen, so that a deleted Lease or a restored etcd never repeats one.

import type { KubeLeaseTableOptions } from '../../core/kube/lease/kube-lease-table.ts';
import type { LeaseRecord } from '../../core/kube/lease/kube-lease.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Store } from '../../core/store/store.ts';
import { epochAnnotation, epochFloorAnnotation } from '../names.ts';
import type { ObjectMeta } from '../objects.ts';
import { epochOf } from './fenced-writer.ts';

/** One record for each member: the highest epoch, as decimal digits. */
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

  /** `copies` are the objects in the member that carry epochs. */
  constructor(
    store: Store,
    clusterID: string,
    copies: () => Iterable<{ readonly metadata: ObjectMeta }>,
  ) {
    this.#store = store;
    this.#clusterID = clusterID;
    this.#copies = copies;
  }

  /** The highest epoch that this site knows of. */
  get highest(): number {
    const found = this.#store.get(epochCollection, this.#clusterID);
    return found === undefined
      ? 0
      : epochOf({ annotations: { [epochAnnotation]: String(found.value) } });
  }

  /** An epoch above all others. It is recorded when this resolves. O(copies). */
  async next(seen: number): Promise<number> {
    let highest = seen;
    for (const { metadata } of this.#copies()) highest = Math.max(highest, epochOf(metadata));
    return this.#record((known) => Math.max(known, highest) + 1);
  }

  /** Remembers what the Lease says. Resolves to the floor that the Lease must get, where it went back. */
  async observe({
    epoch,
    floor,
  }: Pick<LeaseRecord, 'epoch' | 'floor'>): Promise<number | undefined> {
    const { highest } = this;
    if (epoch > highest) await this.#record((known) => Math.max(known, epoch));
    return epoch < highest && floor < highest ? highest : undefined;
  }

  /** The member has left for good. */
  async forget(): Promise<void> {
    const { highest } = this;
    if (highest === 0) return;
    await this.#store.commit({ delete: [{ collection: epochCollection, name: this.#clusterID }] });
  }

  async #record(choose: (known: number) => number): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      const found = this.#store.get(epochCollection, this.#clusterID);
      const epoch = choose(this.highest);
      try {
        await this.#store.commit({
          expect: [
            { collection: epochCollection, name: this.#clusterID, at: found?.revision ?? 'absent' },
          ],
          put: [
            {
              collection: epochCollection,
              name: this.#clusterID,
              encode: () => Buffer.from(String(epoch)),
            },
          ],
        });
        return epoch;
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT') || attempt === attempts) throw error;
      }
    }
  }
}
