// The grants of one peer. Every heartbeat needs them, and a site can have as many grants as peers or more, so an
// index finds them.

import { type FederationGrant, federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';

const reader = kindReader(federationGrantKind);
const none: readonly FederationGrant[] = Object.freeze([]);

/** By listing, which is the same array until a grant changes (see `Store.list`). */
const indexes = new WeakMap<readonly Entry[], ReadonlyMap<string, readonly FederationGrant[]>>();

/** In order of names. O(1), and O(grants) after a change of any grant. */
export function grantsOf(store: Pick<Store, 'list'>, peer: string): readonly FederationGrant[] {
  const { entries } = store.list(reader.collection);
  let index = indexes.get(entries);
  if (index === undefined) {
    index = Map.groupBy(
      entries.map((entry) => reader.of(entry)),
      ({ spec }) => spec.peer,
    );
    indexes.set(entries, index);
  }
  return index.get(peer) ?? none;
}
