// Notifies of changes in federations, peers, grants and offers that affect what workloads get. Most
// commits there are status updates without effect. So it remembers the relevant part of each object, and
// notifies only if that part changes.

import { bundleLife } from '../../api/bundle-life.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { HansaError } from '../../core/errors/error.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import { federationSummaries } from '../federation/federated-bundles.ts';
import {
  type RunningSource,
  type Source,
  type SourceSink,
  StoreSource,
} from '../../core/reconcile/source.ts';
import { valueOf } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { federationStateCollections } from './federation-state.ts';

export interface FederationStateChangesOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly bundles: BundleSource;
  /** Called at every change, and at the start for every existing object. Callers should batch the calls. */
  readonly changed: () => void;
  readonly ended: (error: HansaError, collection: string) => void;
}

interface Stored {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly spec?: unknown;
  readonly status?: {
    readonly state?: string;
    readonly reenrolments?: number;
    readonly offers?: unknown;
  };
}

/** Reads each committed object once. Returns a function that stops it. */
export function watchFederationState(options: FederationStateChangesOptions): () => void {
  const { store, clock, bundles, changed, ended } = options;
  const concerns = new Map<string, string>();
  const look = (collection: string, name: string): void => {
    const key = `${collection}/${name}`;
    const entry = store.get(collection, name);
    const concern = entry === undefined ? undefined : concernOf(collection, entry, bundles);
    if (concern === concerns.get(key)) return;
    if (concern === undefined) concerns.delete(key);
    else concerns.set(key, concern);
    changed();
  };
  const sources = federationStateCollections.map((collection) =>
    new StoreSource({ store, clock, collection }).start({
      add: (name) => look(collection, name),
      ended: (error) => ended(error, collection),
    }),
  );
  return () => {
    for (const source of sources) source.stop();
  };
}

/** A source of all keys of a collection after each such change, for controllers whose objects depend on all relations. */
export class FederationStateSource implements Source {
  readonly #options: Pick<FederationStateChangesOptions, 'store' | 'clock' | 'bundles'>;
  readonly #collection: string;

  constructor(
    options: Pick<FederationStateChangesOptions, 'store' | 'clock' | 'bundles'>,
    collection: string,
  ) {
    this.#options = options;
    this.#collection = collection;
  }

  start(sink: SourceSink): RunningSource {
    const { store, clock } = this.#options;
    const resync = (): void => {
      for (const { name } of store.list(this.#collection).entries) sink.add(name);
    };
    let soon: Timer | undefined;
    const stop = watchFederationState({
      ...this.#options,
      // Deferred, so that a commit with several objects, or the initial list, counts as one change.
      changed: () => {
        soon ??= clock.timer(0, () => {
          soon = undefined;
          resync();
        });
      },
      ended: (error) => sink.ended(error),
    });
    return {
      resync,
      stop: () => {
        soon?.cancel();
        stop();
      },
    };
  }
}

/** Changes when a decision about workloads may change. */
function concernOf(collection: string, entry: Entry, bundles: BundleSource): string {
  if (collection === spiffeFederationKind.plural) {
    const bundle = bundles.bundleFor(TrustDomain.parse(entry.name));
    const summary = federationSummaries.of(entry);
    const { metadata, status } = summary;
    const conditions = status?.conditions?.map((one) => `${one.type} ${one.status}`);
    // The spec by its generation: it holds whole bundles.
    const { generation, labels, deletionTimestamp } = metadata;
    const going = deletionTimestamp !== undefined;
    // On an agent, where objects have no generation and no conditions, a deadline moves with a commit.
    const { staleAtMs } = bundleLife(summary);
    return JSON.stringify([going, generation, labels, bundle?.hash, conditions, staleAtMs]);
  }
  const { metadata, spec, status } = valueOf(entry) as Stored;
  const going = metadata.deletionTimestamp !== undefined;
  if (collection === federationPeerKind.plural) {
    const { state, reenrolments, offers } = status ?? {};
    return JSON.stringify([going, spec, state, reenrolments, offers]);
  }
  return JSON.stringify([going, spec]);
}
