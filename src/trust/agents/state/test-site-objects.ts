// For tests only: a store of given objects, and the parts of a site or an agent that decide from it.

import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { Bundle } from '../../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../../core/identity/bundle/spiffe-bundle.ts';
import { forgeRoot } from '../../../core/identity/x509/test-forge.ts';
import type { Entry, Store } from '../../../core/store/store.ts';
import { StoreFederationState } from '../../authorization/federation-state.ts';
import { FederatedBundles } from '../../federation/federated-bundles.ts';
import {
  type UsableEntry,
  usableEntry,
  type WorkloadEntry,
} from '../../workload/entries/matching-entries.ts';

export const lubeck = TrustDomain.parse('lubeck.example');
export const ownRoot = forgeRoot('lubeck.example');
export const own = { bundle: new Bundle(lubeck, [ownRoot.certificate]) };

export interface SiteObject {
  readonly collection: string;
  readonly name: string;
  readonly object: object;
}

type FactsByName = ReadonlyMap<string, Readonly<Record<string, unknown>>>;

/** Reads only. `facts` are those of federations, by name. */
export function storeOf(objects: readonly SiteObject[], facts: FactsByName = new Map()): Store {
  const collections = Map.groupBy(
    objects.map(({ collection, name, object }): Entry => {
      return { collection, name, revision: 1, value: Buffer.from(JSON.stringify(object)) };
    }),
    ({ collection }) => collection,
  );
  for (const entries of collections.values()) entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  const list = (collection: string): readonly Entry[] => collections.get(collection) ?? nothing;
  return {
    list: (collection: string) => ({ entries: list(collection), revision: 1 }),
    get: (collection: string, name: string) => list(collection).find((one) => one.name === name),
    facts: { get: (_collection: string, name: string) => facts.get(name) },
  } as unknown as Store;
}

const nothing: readonly Entry[] = [];

export function decidersOf(store: Store, clock: { now(): number }) {
  const bundles = new FederatedBundles(store, own, clock);
  return { bundles, federationState: new StoreFederationState(store, bundles) };
}

export function documentOf(
  trustDomain: string,
  ...roots: readonly ReturnType<typeof forgeRoot>[]
): string {
  return encodeSpiffeBundle(
    new Bundle(
      TrustDomain.parse(trustDomain),
      roots.map(({ certificate }) => certificate),
    ),
    { sequence: 1, refreshHintSeconds: 300 },
  );
}

export function usable(entry: object, siteNames: readonly string[] = []): UsableEntry {
  const found = usableEntry(entry as WorkloadEntry, lubeck, siteNames);
  if ('problem' in found) throw new Error(found.problem.message);
  return found.entry;
}
