// The section `identities` of the agents' state: for each agent, the objects that its entries need, as
// compile-agent-state.ts decides. It follows the store and finds the agents that a change concerns. All
// agents share the bytes of equal items, so a rotated bundle is encoded once for a thousand agents.

import { agentKind } from '../../../api/kinds/agent.ts';
import { federationGrantKind } from '../../../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../../api/kinds/service-offer.ts';
import { workloadEntryKind } from '../../../api/kinds/workload-entry.ts';
import type { AgentSection } from '../../../core/agent/section.ts';
import { AgentItem } from '../../../core/agent/state.ts';
import type { Clock, Timer } from '../../../core/clock/clock.ts';
import type { SiteAuthority } from '../../../core/identity/authority/authority.ts';
import type { Log } from '../../../core/log/log.ts';
import { type RunningSource, StoreSource } from '../../../core/reconcile/source.ts';
import { followListing } from '../../../core/store/listing-changes.ts';
import { kindReader, recordReader } from '../../../core/store/reader.ts';
import type { Entry, Store } from '../../../core/store/store.ts';
import {
  federationStateCollections,
  type StoreFederationState,
} from '../../authorization/federation-state.ts';
import { federationsCollection, federationSummaries } from '../../federation/federated-bundles.ts';
import type { UsableEntry } from '../../workload/entries/matching-entries.ts';
import type { AgentEntries, EntriesOfAgent } from '../agent-entries.ts';
import { type CompiledObject, compileAgentState, reducedEntry } from './compile-agent-state.ts';
import { FederationItems } from './federation-items.ts';
import { Relations } from './relations.ts';
import { encodeSiteItem, siteCollection, siteName } from '../site-item.ts';
import type { StoreAssignments } from '../store-assignments.ts';

export const identitiesSection = 'identities';

export interface IdentitiesSectionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly authority: Pick<SiteAuthority, 'bundle' | 'authorities' | 'onChange'>;
  readonly federationState: StoreFederationState;
  readonly assignments: StoreAssignments;
  readonly entries: AgentEntries;
}

/** The state of one agent. `items` are valid until `isOutdated`. */
interface View {
  readonly entries: EntriesOfAgent;
  readonly relations: Relations;
  readonly trustDomains: readonly string[];
  readonly items: readonly AgentItem[];
  isOutdated: boolean;
}

/** How often the site looks for bundles that their endpoints confirmed. Far below the shortest time until one is stale. */
const confirmationsEveryMs = 5_000;

/** Right after a join, the agent has no object yet. */
const defaultMaxOfflineSeconds = 3600;

const agentsReader = kindReader(agentKind);
/** The fields of peers, grants and offers that decide about relations. */
const relationReaders = new Map(
  [federationPeerKind, federationGrantKind, serviceOfferKind].map(({ plural }) => [
    plural,
    recordReader<StoredRelation>(plural),
  ]),
);

interface StoredRelation {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly spec?: unknown;
  readonly status?: {
    readonly state?: string;
    readonly reenrolments?: number;
    readonly offers?: unknown;
  };
}

export class IdentitiesSection implements AgentSection {
  readonly name = identitiesSection;
  readonly #parts: IdentitiesSectionParts;
  readonly #listeners = new Set<(agents: readonly string[]) => void>();
  readonly #views = new Map<string, View>();
  /** The agents that have a federation in their view, by trust domain. */
  readonly #users = new Map<string, Set<string>>();
  readonly #federations: FederationItems;
  #listings: readonly (readonly Entry[])[] = federationStateCollections.map(() => []);
  /** Undefined after a change, until the next use. */
  #relations: Relations | undefined;
  readonly #entryItems = new WeakMap<
    UsableEntry,
    { readonly key: string; readonly item: AgentItem }
  >();
  /** Other items by content, of the current relations and of the ones before. */
  #shared = new Map<string, AgentItem>();
  #sharedBefore = new Map<string, AgentItem>();
  /** By `maxOfflineSeconds`. */
  readonly #siteItems = new Map<number, AgentItem>();
  #siteItemsOf: unknown[] = [];
  #changed = new Set<string>();
  #soon: Timer | undefined;
  #look: Timer | undefined;
  #sources: readonly RunningSource[] = [];
  #unhook: readonly (() => void)[] = [];

  constructor(parts: IdentitiesSectionParts) {
    this.#parts = parts;
    this.#federations = new FederationItems(
      parts.store,
      parts.clock,
      identitiesSection,
      (trustDomain) => this.#outdate(this.#users.get(trustDomain) ?? []),
    );
  }

  start(): void {
    const { store, clock, log, authority, assignments } = this.#parts;
    this.#unhook = [
      assignments.onChange((agents) => this.#outdate(agents)),
      authority.onChange(() => this.#follow()),
    ];
    const collections = [workloadEntryKind.plural, agentKind.plural, ...federationStateCollections];
    this.#sources = collections.map((collection) =>
      new StoreSource({ store, clock, collection }).start({
        add: () => this.#followSoon(),
        ended: (error) => log.warn('the watch for changes of agents ended', { error, collection }),
      }),
    );
    this.#lookAgain();
  }

  stop(): void {
    for (const source of this.#sources) source.stop();
    for (const unhook of this.#unhook) unhook();
    this.#soon?.cancel();
    this.#look?.cancel();
    this.#listeners.clear();
  }

  /** Always tells the agents. Tells an agent once, until `itemsOf` is called for it. */
  onChange(listener: (agents: readonly string[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  itemsOf(agent: string): readonly AgentItem[] {
    this.#follow();
    const known = this.#views.get(agent);
    if (known?.isOutdated === false) return known.items;
    // It gets the changes that this finds in federations. The other users are told of them.
    this.#views.delete(agent);
    const view = this.#compile(agent, known);
    this.#replace(agent, known, view);
    this.#changed.delete(agent);
    return view.items;
  }

  #compile(agent: string, before: View | undefined): View {
    const { entries: ofAgents, federationState } = this.#parts;
    const entries = ofAgents.of(agent);
    this.#relations ??= new Relations(federationState.current);
    const relations = this.#relations;
    const isSame = before?.entries === entries && before.relations === relations;
    const compiled = isSame ? undefined : compileAgentState([...entries.values()], relations);
    const trustDomains = compiled?.trustDomains ?? before?.trustDomains ?? [];
    const others =
      compiled?.objects.map((object) => this.#sharedItem(object)) ??
      before?.items.filter(({ collection }) => relationReaders.has(collection)) ??
      [];
    const items = [
      this.#siteItem(agent),
      ...entries.values().map((entry) => this.#entryItem(entry, relations)),
      ...trustDomains.flatMap((trustDomain) => this.#federations.of(trustDomain) ?? []),
      ...others,
    ];
    const isEqual =
      before?.items.length === items.length && items.every((item, at) => item === before.items[at]);
    return {
      entries,
      relations,
      trustDomains,
      items: isEqual ? before.items : items,
      isOutdated: false,
    };
  }

  #replace(agent: string, before: View | undefined, view: View): void {
    this.#views.set(agent, view);
    if (before?.trustDomains === view.trustDomains) return;
    this.#unuse(agent, before);
    for (const trustDomain of view.trustDomains) {
      const users = this.#users.get(trustDomain);
      if (users === undefined) this.#users.set(trustDomain, new Set([agent]));
      else users.add(agent);
    }
  }

  #unuse(agent: string, view: View | undefined): void {
    for (const trustDomain of view?.trustDomains ?? []) {
      const users = this.#users.get(trustDomain);
      users?.delete(agent);
      if (users?.size !== 0) continue;
      this.#users.delete(trustDomain);
      this.#federations.forget(trustDomain);
    }
  }

  #siteItem(agent: string): AgentItem {
    const { store, authority } = this.#parts;
    const maxOfflineSeconds =
      agentsReader.get(store, agent)?.spec?.maxOfflineSeconds ?? defaultMaxOfflineSeconds;
    let item = this.#siteItems.get(maxOfflineSeconds);
    if (item === undefined) {
      const value = encodeSiteItem(authority, maxOfflineSeconds);
      item = new AgentItem(identitiesSection, siteCollection, siteName, value);
      this.#siteItems.set(maxOfflineSeconds, item);
    }
    return item;
  }

  #entryItem(entry: UsableEntry, { federationState }: Relations): AgentItem {
    const known = this.#entryItems.get(entry);
    const isFixed = entry.federatesWithSelector === undefined;
    if (known !== undefined && isFixed) return known.item;
    const { collection, name, object } = reducedEntry(entry, federationState);
    const key = JSON.stringify(object);
    if (known?.key === key) return known.item;
    const item = new AgentItem(identitiesSection, collection, name, Buffer.from(key));
    this.#entryItems.set(entry, { key: isFixed ? '' : key, item });
    return item;
  }

  #sharedItem({ collection, name, object }: CompiledObject): AgentItem {
    const text = JSON.stringify(object);
    const key = `${collection}\n${name}\n${text}`;
    let item = this.#shared.get(key);
    if (item === undefined) {
      item =
        this.#sharedBefore.get(key) ??
        new AgentItem(identitiesSection, collection, name, Buffer.from(text));
      this.#shared.set(key, item);
    }
    return item;
  }

  /** Processes all changes since the last call. Quick without changes. */
  #follow(): void {
    const { store, authority, assignments } = this.#parts;
    assignments.follow();
    this.#followAuthority(authority);
    const before = this.#listings;
    this.#listings = federationStateCollections.map((collection) => store.list(collection).entries);
    let isOther = false;
    for (const [at, collection] of federationStateCollections.entries()) {
      const [old, now] = [before[at] ?? [], this.#listings[at] ?? []];
      if (old === now) continue;
      if (collection === federationsCollection) {
        const changed = changesOf(old, now, shapeOfFederation);
        isOther ||= changed.isOther;
        for (const trustDomain of changed.names) this.#lookAt(trustDomain);
      } else {
        isOther ||= changesOf(old, now, shapeOfRelation).isOther;
      }
    }
    if (!isOther) return;
    this.#relations = undefined;
    this.#sharedBefore = this.#shared;
    this.#shared = new Map();
    this.#outdate(this.#views.keys());
  }

  #followAuthority({ bundle, authorities }: IdentitiesSectionParts['authority']): void {
    const [knownBundle, knownAuthorities] = this.#siteItemsOf;
    if (knownBundle === bundle && knownAuthorities === authorities) return;
    this.#siteItemsOf = [bundle, authorities];
    this.#siteItems.clear();
    this.#outdate(this.#views.keys());
  }

  /** Tells the users of a federation if its item changed. */
  #lookAt(trustDomain: string): void {
    if (this.#users.has(trustDomain)) this.#federations.of(trustDomain);
  }

  #outdate(agents: Iterable<string>): void {
    for (const agent of agents) {
      const view = this.#views.get(agent);
      if (view === undefined) continue;
      if (view.isOutdated) {
        if (this.#changed.has(agent)) continue;
        // It was told and did not read since: it is slow, or no longer connected.
        this.#views.delete(agent);
        this.#unuse(agent, view);
        continue;
      }
      view.isOutdated = true;
      this.#changed.add(agent);
    }
    if (this.#changed.size > 0) this.#followSoon();
  }

  /** Deferred, so that a commit with several objects counts as one change. */
  #followSoon(): void {
    this.#soon ??= this.#parts.clock.timer(0, () => {
      this.#follow();
      this.#soon = undefined;
      const changed = [...this.#changed];
      this.#changed.clear();
      if (changed.length > 0) for (const listener of this.#listeners) listener(changed);
    });
  }

  /** Confirmations and time have no watch. */
  #lookAgain(): void {
    this.#look = this.#parts.clock.timer(confirmationsEveryMs, () => {
      this.#follow();
      for (const trustDomain of this.#users.keys()) this.#lookAt(trustDomain);
      this.#lookAgain();
    });
  }
}

/** Undefined for an object that does not count. */
type Shape = (entry: Entry) => string | undefined;

function changesOf(
  old: readonly Entry[],
  now: readonly Entry[],
  shape: Shape,
): { readonly names: ReadonlySet<string>; readonly isOther: boolean } {
  const before = new Map<string, Entry>();
  const names = new Set<string>();
  let isOther = false;
  followListing(old, now, {
    removed: (entry) => {
      names.add(entry.name);
      before.set(entry.name, entry);
    },
    added: (entry) => {
      names.add(entry.name);
      const replaced = before.get(entry.name);
      before.delete(entry.name);
      isOther ||= shape(entry) !== (replaced && shape(replaced));
    },
  });
  for (const entry of before.values()) isOther ||= shape(entry) !== undefined;
  return { names, isOther };
}

/** Changes when the relations of entries may change. Ignores the bundle. */
function shapeOfFederation(entry: Entry): string | undefined {
  const { metadata } = federationSummaries.of(entry);
  return metadata.deletionTimestamp === undefined
    ? JSON.stringify(metadata.labels ?? {})
    : undefined;
}

function shapeOfRelation(entry: Entry): string | undefined {
  const object = relationReaders.get(entry.collection)?.once(entry);
  if (object?.metadata.deletionTimestamp !== undefined) return undefined;
  const { state, reenrolments, offers } = object?.status ?? {};
  return JSON.stringify([object?.spec, state, reenrolments, offers]);
}
