// Decides from the items of a state which peers an agent trusts that holds this state. Pure.

import { peerDistrust } from '../../../api/grants.ts';
import { type FederationPeer, federationPeerKind } from '../../../api/kinds/federation-peer.ts';
import { peerLabel, spiffeFederationKind } from '../../../api/kinds/spiffe-federation.ts';
import type { AgentItem, ItemName } from '../../../core/agent/state.ts';
import { parseBoundedJson } from '../../../core/json/strict-json.ts';
import type { StoredFederation } from '../../federation/federated-bundles.ts';

const peersCollection = federationPeerKind.plural;
const federationsCollection = spiffeFederationKind.plural;

/** Each agent that is away has a record with their names, and each takes a look at its bundle. */
export const mostWithoutPeer = 200;

/** Many agents share an item. */
const trusted = new WeakMap<AgentItem, boolean>();
const labelled = new WeakMap<AgentItem, boolean>();

/**
 * The peers that a difference of two states is about. There may be thousands of federations without a peer,
 * and they are not read. Linear in the items.
 */
export function changedPeers(
  change: Iterable<ItemName>,
  ...states: readonly Iterable<ItemName>[]
): ReadonlySet<string> {
  const changed = [...change];
  const peers = new Set<string>();
  for (const state of [...states, changed]) {
    for (const { collection, name } of state) if (collection === peersCollection) peers.add(name);
  }
  const found = changed.filter(
    ({ collection, name }) =>
      peers.has(name) && (collection === peersCollection || collection === federationsCollection),
  );
  return new Set(found.map(({ name }) => name));
}

/**
 * Those of the trust domains whose SVIDs an agent with this state accepts, or whose bundle it gives to
 * workloads. Linear in the items.
 */
export function trustedOf(
  items: Iterable<AgentItem>,
  trustDomains: ReadonlySet<string>,
): ReadonlySet<string> {
  const federations = new Map<string, AgentItem>();
  const peers = new Map<string, AgentItem>();
  for (const item of items) {
    if (item.collection === federationsCollection && trustDomains.has(item.name)) {
      federations.set(item.name, item);
    } else if (item.collection === peersCollection && trustDomains.has(item.name)) {
      peers.set(item.name, item);
    }
  }
  const found = new Set<string>();
  for (const [name, federation] of federations) {
    const peer = peers.get(name);
    // A federation that belongs to a peer counts only with it.
    const isTrusted = peer === undefined ? !belongsToPeer(federation) : isTrustedPeer(peer);
    if (isTrusted && isUsable(federation)) found.add(name);
  }
  return found;
}

/**
 * The trust domains that an agent with this state trusts, also those without a peer: they may become peers, and
 * end, while the agent is away. Undefined where too many have none.
 */
export function allTrusted(items: readonly AgentItem[]): ReadonlySet<string> | undefined {
  const peers = items.filter(({ collection }) => collection === peersCollection);
  const known = new Set(peers.map(({ name }) => name));
  const others = items.filter(
    ({ collection, name }) => collection === federationsCollection && !known.has(name),
  );
  if (others.length > mostWithoutPeer) return undefined;
  const asked = [...peers.filter(isTrustedPeer), ...others];
  return trustedOf(items, new Set(asked.map(({ name }) => name)));
}

function isTrustedPeer(item: AgentItem): boolean {
  return kept(item, (object) => peerDistrust(item.name, object as FederationPeer) === undefined);
}

function isUsable(item: AgentItem): boolean {
  return kept(item, (object) => {
    const { spec, status } = object as StoredFederation;
    return spec?.quarantined !== true && status?.bundle !== undefined;
  });
}

function kept(item: AgentItem, decide: (object: unknown) => boolean): boolean {
  let known = trusted.get(item);
  if (known === undefined) {
    known = decide(parseBoundedJson(item.value, Infinity));
    trusted.set(item, known);
  }
  return known;
}

/** Only asked where the peer is missing. */
function belongsToPeer(item: AgentItem): boolean {
  let known = labelled.get(item);
  if (known === undefined) {
    const { metadata } = parseBoundedJson(item.value, Infinity) as StoredFederation;
    known = metadata?.labels?.[peerLabel] !== undefined;
    labelled.set(item, known);
  }
  return known;
}
