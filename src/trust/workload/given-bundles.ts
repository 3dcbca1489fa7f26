// Selects the bundles of other trust domains for the state of a workload. There may be ten thousand, so
// it works in small steps, between which the caller can yield. Pure.

import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { askedOf, earlier, entitlement } from '../authorization/entitlement.ts';
import { type PeerIdentities, peerIdentities } from '../authorization/peer-identities.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import { askedTrustDomains, type UsableEntry } from './entries/matching-entries.ts';

export interface GivenBundles {
  /** In the order of trust domains. */
  readonly federated: readonly Bundle[];
  /** The identities that the workload may talk to, by trust domain of a peer. */
  readonly peers: ReadonlyMap<string, PeerIdentities>;
  /** The next time at which the result may change without any other change. */
  readonly changesAtMs: number | undefined;
}

interface Given {
  readonly bundle: Bundle;
  readonly isPeer: boolean;
}

/** Each step decides about one trust domain, or passes its bundle to `prepare`. */
export function* givenBundles(
  entries: readonly UsableEntry[],
  federationState: FederationState,
  nowMs: number,
  prepare: (bundle: Bundle) => void,
): Generator<undefined, GivenBundles> {
  const given = new Map<string, Given>();
  let changesAtMs: number | undefined;
  for (const entry of entries) {
    const asked = askedTrustDomains(entry, federationState);
    for (const trustDomain of askedOf(entry.id, asked, federationState)) {
      const decision = entitlement(entry.id, trustDomain, federationState, nowMs);
      changesAtMs = earlier(changesAtMs, decision.changesAtMs);
      const { bundle, reason } = decision;
      if (bundle) given.set(trustDomain, { bundle, isPeer: reason !== 'FederatedWithoutPeer' });
      yield;
    }
  }
  const inOrder = [...given];
  // Of one entry they are in order already.
  if (entries.length > 1) inOrder.sort(([one], [other]) => (one < other ? -1 : 1));
  const ids = entries.map(({ id }) => id.toString());
  const federated: Bundle[] = [];
  const peers = new Map<string, PeerIdentities>();
  for (const [name, { bundle, isPeer }] of inOrder) {
    if (isPeer) peers.set(name, peerIdentities(ids, name, federationState, nowMs));
    federated.push(bundle);
    prepare(bundle);
    yield;
  }
  return { federated, peers, changesAtMs };
}
