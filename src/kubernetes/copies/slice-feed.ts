// One listener on the slices of a member, for all targets of a site. Each target writes slices into its member, and
// no other target has to hear of them: otherwise a change of one endpoint would cost as much as all pairs of members.

import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import type { EndpointSlice } from '../objects.ts';
import { isSource } from '../services/slice-source.ts';
import type { SyncedMember } from './synced-member.ts';

export type SliceListener = (change: ObjectChange<EndpointSlice>) => void;

const feeds = new WeakMap<SyncedMember['slices'], SliceFeed>();

class SliceFeed {
  readonly counters = new Set<SliceListener>();
  readonly followers = new Set<SliceListener>();
  readonly #stop: () => void;

  constructor(slices: SyncedMember['slices']) {
    this.#stop = slices.onChange((change) => this.#heard(change));
  }

  get isUsed(): boolean {
    return this.counters.size + this.followers.size > 0;
  }

  stop(): void {
    this.#stop();
  }

  #heard(change: ObjectChange<EndpointSlice>): void {
    const failures: unknown[] = [];
    const tell = (listener: SliceListener): void => {
      try {
        listener(change);
      } catch (error) {
        failures.push(error);
      }
    };
    for (const counter of this.counters) tell(counter);
    const isOfInterest = [change.old, change.new].some((one) => one !== undefined && isSource(one));
    if (isOfInterest) for (const follower of this.followers) tell(follower);
    // The reflector logs it.
    if (failures.length > 0) throw failures[0];
  }
}

/** Follows the slices of the member that others can get, until the returned function is called. */
export const followSources = (
  { slices }: Pick<SyncedMember, 'slices'>,
  listener: SliceListener,
): (() => void) => join(slices, 'followers', listener);

/** Counts all slices of the member. Hears of each change before those who follow. */
export const countSlices = (
  { slices }: Pick<SyncedMember, 'slices'>,
  listener: SliceListener,
): (() => void) => join(slices, 'counters', listener);

function join(
  slices: SyncedMember['slices'],
  role: 'counters' | 'followers',
  listener: SliceListener,
): () => void {
  const feed = feeds.get(slices) ?? new SliceFeed(slices);
  feeds.set(slices, feed);
  feed[role].add(listener);
  return () => {
    feed[role].delete(listener);
    if (feed.isUsed) return;
    feed.stop();
    if (feeds.get(slices) === feed) feeds.delete(slices);
  };
}
