// Decides what an agent gets: the objects that its entries need, reduced to the fields that decide about
// them. The agent keeps them in a store of its own, in the same collections, and the code that runs at
// the site comes to the same decisions there. It learns nothing about relations of other entries. Pure.

import { confirmedAtOf, sourceOf, staleAfterSecondsOf } from '../../../api/bundle-life.ts';
import { knownScopes } from '../../../api/grants.ts';
import { type FederationGrant, federationGrantKind } from '../../../api/kinds/federation-grant.ts';
import { type FederationPeer, federationPeerKind } from '../../../api/kinds/federation-peer.ts';
import { type ServiceOffer, serviceOfferKind } from '../../../api/kinds/service-offer.ts';
import { peerLabel, spiffeFederationKind } from '../../../api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../../../api/kinds/workload-entry.ts';
import { timestamp } from '../../../api/object.ts';
import { refreshAfterSeconds } from '../../../api/values/refresh-hint.ts';
import type { FederationState } from '../../authorization/federation-state.ts';
import { type StoredFederation, usableDocument } from '../../federation/federated-bundles.ts';
import {
  askedTrustDomains,
  asksFor,
  type UsableEntry,
} from '../../workload/entries/matching-entries.ts';
import type { Relations } from './relations.ts';

export interface CompiledObject {
  readonly collection: string;
  readonly name: string;
  readonly object: object;
}

export interface CompiledState {
  /** Without entries and federations, which many agents share. */
  readonly objects: readonly CompiledObject[];
  /** The federations that the agent needs, in order. */
  readonly trustDomains: readonly string[];
}

/** Linear in the entries of the agent and their relations. */
export function compileAgentState(
  entries: readonly UsableEntry[],
  relations: Relations,
): CompiledState {
  const { federationState } = relations;
  const ids = new Set(entries.map(({ id }) => id.toString()));
  const offers = [...ids].flatMap((id) => relations.offersOf(id));
  const grants = new Set(offers.flatMap(({ metadata }) => relations.grantsOf(metadata.name)));
  const trustDomains = new Set([...grants].map(({ spec }) => spec.peer));
  for (const entry of entries) {
    for (const trustDomain of reachableFor(entry, relations)) trustDomains.add(trustDomain);
  }
  const served = new Set(offers.map(({ metadata }) => metadata.name));
  const inOrder = [...trustDomains].toSorted();
  const peers = inOrder
    .filter((name) => !relations.withoutPeer.has(name))
    .flatMap((name) => federationState.peers.get(name) ?? []);
  return {
    trustDomains: inOrder,
    objects: [
      ...offers.map(reducedOffer),
      ...[...grants].map((grant) => reducedGrant(grant, served)),
      ...peers.map((peer) => reducedPeer(peer, ids)),
    ],
  };
}

/** The trust domains that the entry asks for and whose bundles it can get without a grant of this site. */
function reachableFor(entry: UsableEntry, relations: Relations): readonly string[] {
  const { withoutPeer, federationState } = relations;
  const own = entry.id.trustDomain.name;
  const asked = askedTrustDomains(entry, federationState);
  const free = asked.includes('*') ? [...withoutPeer] : asked.filter((td) => withoutPeer.has(td));
  const offered = relations
    .peersOffering(entry.id.toString())
    .filter((peer) => asksFor(entry, peer, federationState));
  return [...free, ...offered].filter((trustDomain) => trustDomain !== own);
}

/**
 * A selector of federations becomes a list of names, so that the agent needs no labels. `*` stays: it
 * means all federations that the agent has, which are those that the entry can use.
 */
export function reducedEntry(entry: UsableEntry, state: FederationState): CompiledObject {
  const { name, uid, id, selectors, ttlSeconds, jwtTtlSeconds, dnsNames, hint } = entry;
  const asked = askedTrustDomains(entry, state);
  const federatesWith = asked.includes('*') ? ['*'] : asked.toSorted();
  return {
    collection: workloadEntryKind.plural,
    name,
    object: {
      metadata: { name, uid },
      spec: {
        spiffeID: id.toString(),
        selectors,
        federatesWith,
        ttlSeconds,
        jwtTtlSeconds,
        dnsNames,
        hint,
      },
    },
  };
}

/** `confirmedAt` is that of `confirmationForAgents`. Without URLs and other ways to fetch the bundle. */
export function reducedFederation(
  name: string,
  federation: StoredFederation,
  confirmedAt: string | undefined,
): CompiledObject {
  const { metadata, spec, status } = federation;
  const peer = metadata?.labels?.[peerLabel];
  return {
    collection: spiffeFederationKind.plural,
    name,
    object: {
      metadata: { name, labels: peer === undefined ? undefined : { [peerLabel]: peer } },
      spec: {
        quarantined: spec?.quarantined,
        staleAfterSeconds: spec?.staleAfterSeconds,
        bundleSource: { [sourceFields[sourceOf(federation)]]: {} },
      },
      status: {
        bundle: usableDocument(federation),
        refreshHintSeconds: status?.refreshHintSeconds,
        syncedAt: confirmedAt,
      },
    },
  };
}

const sourceFields = {
  https_spiffe: 'httpsSpiffe',
  https_web: 'httpsWeb',
  static: 'static',
} as const;

function reducedOffer({ metadata: { name }, spec }: ServiceOffer): CompiledObject {
  const object = { metadata: { name }, spec: { spiffeID: spec.spiffeID, callers: spec.callers } };
  return { collection: serviceOfferKind.plural, name, object };
}

function reducedGrant(grant: FederationGrant, served: ReadonlySet<string>): CompiledObject {
  const { name } = grant.metadata;
  const { peer, offers, nodeInstances, networks, sourceCIDRs, expiresAt } = grant.spec;
  return {
    collection: federationGrantKind.plural,
    name,
    object: {
      metadata: { name },
      spec: {
        peer,
        // Older versions stored other values.
        scopes: knownScopes(grant),
        offers: offers?.filter((offer) => served.has(offer)),
        nodeInstances,
        networks: { unrestricted: networks?.unrestricted },
        sourceCIDRs,
        expiresAt,
      },
    },
  };
}

function reducedPeer(peer: FederationPeer, ids: ReadonlySet<string>): CompiledObject {
  const { name, uid } = peer.metadata;
  const offers = (peer.status?.offers ?? []).flatMap(({ name: offer, spiffeID, grantedTo }) => {
    const granted = grantedTo.includes('*') ? ['*'] : grantedTo.filter((id) => ids.has(id));
    return granted.length === 0 ? [] : [{ name: offer, spiffeID, grantedTo: granted }];
  });
  return {
    collection: federationPeerKind.plural,
    name,
    object: {
      metadata: { name, uid },
      spec: { desiredState: peer.spec.desiredState },
      status: { state: peer.status?.state, reenrolments: peer.status?.reenrolments, offers },
    },
  };
}

/** An agent gets a new confirmation of a bundle after this share of the time that the bundle may be overdue. */
const confirmationShare = 1 / 8;

export interface Confirmation {
  /** The time that agents get as `syncedAt`. Undefined if the bundle never becomes stale. */
  readonly at: string | undefined;
  /** When `at` changes next without another confirmation. */
  readonly changesAtMs: number | undefined;
}

/**
 * Rounds the time of the last confirmation down, so that a refresh that confirms the same bundle does not
 * go to all agents each time. So the bundle is stale on an agent at most one share earlier than at the
 * site, and never later. When half of the overdue time has passed, agents get the exact time. All
 * replicas round alike.
 */
export function confirmationForAgents(
  federation: StoredFederation,
  syncedAt: string | undefined,
  nowMs: number,
): Confirmation {
  const exact = confirmedAtOf(federation, syncedAt);
  const exactMs = Date.parse(exact ?? '');
  if (sourceOf(federation) === 'static' || Number.isNaN(exactMs)) {
    return { at: undefined, changesAtMs: undefined };
  }
  const staleAfterMs = staleAfterSecondsOf(federation) * 1000;
  const dueAtMs = exactMs + refreshAfterSeconds(federation.status?.refreshHintSeconds) * 1000;
  const exactFromMs = dueAtMs + staleAfterMs / 2;
  if (nowMs >= exactFromMs) return { at: exact, changesAtMs: undefined };
  const stepMs = staleAfterMs * confirmationShare;
  return { at: timestamp(exactMs - (exactMs % stepMs)), changesAtMs: exactFromMs };
}
