// The site as an agent knows it: its bundle, its tainted authorities, and how long ext_authz may decide
// without contact. An always-current view of one item in the store of the agent.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { parseSiteItem, type SiteItem, siteCollection, siteName } from '../agents/site-item.ts';

export interface SiteViewOptions {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
}

export class SiteView {
  readonly #options: SiteViewOptions;
  #entry: Entry | undefined;
  #item: SiteItem;
  readonly #listeners = new Set<() => void>();

  /** Throws HANSA_UNAVAILABLE where the store has no description of the site yet. */
  constructor(options: SiteViewOptions) {
    this.#options = options;
    const { store, trustDomain } = options;
    const entry = store.get(siteCollection, siteName);
    if (entry === undefined) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot serve workloads: the site of ${trustDomain.name} has sent no state yet.`,
      );
    }
    this.#entry = entry;
    this.#item = parseSiteItem(entry.value, trustDomain);
  }

  /** The same object until it changes. */
  get bundle(): Bundle {
    return this.#current.bundle;
  }

  get maxOfflineSeconds(): number {
    return this.#current.maxOfflineSeconds;
  }

  /** Whether SVIDs of this X.509 authority or JWT key must be replaced: it is tainted, revoked or unknown. */
  isTainted(id: string): boolean {
    const { bundle, tainted } = this.#current;
    if (tainted.has(id)) return true;
    if (bundle.jwtAuthorities.has(id)) return false;
    const { issuers, authorities } = bundle;
    return issuers === undefined
      ? !authorities.some(({ fingerprint }) => fingerprint === id)
      : !issuers.has(id);
  }

  /** Calls `listener` after every change. Returns how to stop. The listener must not throw. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Starts to watch. Returns how to stop. */
  start(): () => void {
    const { store, clock } = this.#options;
    const source = new StoreSource({ store, clock, collection: siteCollection }).start({
      add: () => {
        for (const listener of this.#listeners) listener();
      },
      ended: () => undefined,
    });
    return () => source.stop();
  }

  /** Resolves at the next change, or after this time. */
  changed(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        stop();
        timer.cancel();
        resolve();
      };
      const stop = this.onChange(done);
      const timer = this.#options.clock.timer(withinMs, done);
    });
  }

  get #current(): SiteItem {
    const { store, trustDomain } = this.#options;
    const entry = store.get(siteCollection, siteName);
    // A site that forgot this agent leaves an empty store.
    if (entry !== undefined && entry !== this.#entry) {
      this.#item = parseSiteItem(entry.value, trustDomain);
      this.#entry = entry;
    }
    return this.#item;
  }
}
