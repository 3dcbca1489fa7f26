// Delivers changes to watchers. All watchers of a collection get the same array, so that they can
// share derived data; a delivery costs one call per watcher and batch. A watcher runs under no lease,
// whoever commits: otherwise its writes, and those of everything that it starts, would carry the epoch
// of a lease that has nothing to do with them.

import { HansaError } from '../../errors/error.ts';
import { underLease } from '../../lease/current-fence.ts';
import type { Log } from '../../log/log.ts';
import type { Change, Watch, Watcher } from '../store.ts';

class Subscription implements Watch {
  readonly #watcher: Watcher;
  readonly #onStop: (subscription: Subscription) => void;
  /** Revisions up to here were delivered, or are in the backlog. */
  #seen: number;
  /** What to deliver first. Undefined as soon as the watcher is live. */
  #backlog: Change[] | undefined;
  #stopped = false;

  constructor(
    watcher: Watcher,
    seen: number,
    backlog: Change[],
    onStop: (subscription: Subscription) => void,
  ) {
    this.#watcher = watcher;
    this.#seen = seen;
    this.#backlog = backlog;
    this.#onStop = onStop;
  }

  /** Runs after `watch` has returned. */
  start(): void {
    const backlog = this.#backlog;
    this.#backlog = undefined;
    if (!this.#stopped && backlog !== undefined && backlog.length > 0)
      this.#watcher.changes(backlog);
  }

  deliver(changes: readonly Change[]): void {
    // A watcher that another callback created during this delivery already started after these
    // changes.
    const last = (changes[changes.length - 1] as Change).revision;
    if (this.#stopped || last <= this.#seen) return;
    this.#seen = last;
    if (this.#backlog === undefined) this.#watcher.changes(changes);
    else this.#backlog.push(...changes);
  }

  end(error: HansaError): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#watcher.ended(error);
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#onStop(this);
  }
}

export class Watchers {
  readonly #subscriptions = new Map<string, Set<Subscription>>();
  readonly #log: Log | undefined;
  #count = 0;

  constructor(log: Log | undefined) {
    this.#log = log;
  }

  get count(): number {
    return this.#count;
  }

  add(collection: string, revision: number, backlog: Change[], watcher: Watcher): Watch {
    let subscriptions = this.#subscriptions.get(collection);
    if (subscriptions === undefined) {
      subscriptions = new Set();
      this.#subscriptions.set(collection, subscriptions);
    }
    const subscription = new Subscription(watcher, revision, backlog, (stopped) => {
      this.#remove(collection, stopped);
    });
    subscriptions.add(subscription);
    this.#count++;
    underLease(undefined, () =>
      queueMicrotask(() => {
        try {
          subscription.start();
        } catch (thrown) {
          this.#expel(collection, subscription, thrown);
        }
      }),
    );
    return subscription;
  }

  /** `changes` are whole commits, in order. */
  deliver(changes: readonly Change[]): void {
    if (this.#count > 0) underLease(undefined, () => this.#deliver(changes));
  }

  #deliver(changes: readonly Change[]): void {
    for (const [collection, group] of groupByCollection(changes)) {
      const subscriptions = this.#subscriptions.get(collection);
      if (subscriptions === undefined) continue;
      for (const subscription of subscriptions) {
        try {
          subscription.deliver(group);
        } catch (thrown) {
          this.#expel(collection, subscription, thrown);
        }
      }
    }
  }

  endAll(error: HansaError): void {
    const all = [...this.#subscriptions.values()].flatMap((subscriptions) => [...subscriptions]);
    this.#subscriptions.clear();
    this.#count = 0;
    underLease(undefined, () => {
      for (const subscription of all) {
        try {
          subscription.end(error);
        } catch (thrown) {
          this.#log?.error('watcher failed in its end callback', { error: thrown });
        }
      }
    });
  }

  /** A watcher that throws breaks its contract: only this watcher is removed. */
  #expel(collection: string, subscription: Subscription, thrown: unknown): void {
    this.#log?.error('watcher failed; it was removed', { collection, error: thrown });
    subscription.stop();
  }

  #remove(collection: string, subscription: Subscription): void {
    const subscriptions = this.#subscriptions.get(collection);
    if (!subscriptions?.delete(subscription)) return;
    this.#count--;
    if (subscriptions.size === 0) this.#subscriptions.delete(collection);
  }
}

function groupByCollection(changes: readonly Change[]): Map<string, readonly Change[]> {
  const groups = new Map<string, Change[]>();
  for (const change of changes) {
    const group = groups.get(change.collection);
    if (group === undefined) groups.set(change.collection, [change]);
    else group.push(change);
  }
  return groups;
}
