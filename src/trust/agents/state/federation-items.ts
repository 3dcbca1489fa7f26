// The items of federations in the agents' state. Each is encoded once for all agents, and again only
// after a change that agents must know.

import { AgentItem } from '../../../core/agent/state.ts';
import type { Clock } from '../../../core/clock/clock.ts';
import type { Entry, Store } from '../../../core/store/store.ts';
import {
  federationsCollection,
  federationSummaries,
  liveSyncedAt,
  storedFederations,
} from '../../federation/federated-bundles.ts';
import {
  type Confirmation,
  confirmationForAgents,
  reducedFederation,
} from './compile-agent-state.ts';

interface Known {
  readonly entry: Entry;
  /** The live time of the last confirmation, from which `confirmation` was computed. */
  readonly syncedAt: string | undefined;
  readonly confirmation: Confirmation;
  readonly item: AgentItem;
}

export class FederationItems {
  readonly #store: Pick<Store, 'get' | 'facts'>;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #section: string;
  readonly #known = new Map<string, Known>();

  constructor(store: Pick<Store, 'get' | 'facts'>, clock: Pick<Clock, 'now'>, section: string) {
    this.#store = store;
    this.#clock = clock;
    this.#section = section;
  }

  /** Undefined if there is no such federation. Returns the same item until it changes. */
  of(trustDomain: string): AgentItem | undefined {
    const entry = this.#store.get(federationsCollection, trustDomain);
    if (entry === undefined) {
      this.#known.delete(trustDomain);
      return undefined;
    }
    const known = this.#known.get(trustDomain);
    const facts = this.#store.facts.get(federationsCollection, trustDomain);
    const summary = federationSummaries.of(entry);
    const syncedAt = liveSyncedAt(summary, facts);
    const nowMs = this.#clock.now();
    const isSame = known?.entry === entry && known.syncedAt === syncedAt;
    if (isSame && !(nowMs >= (known.confirmation.changesAtMs ?? Infinity))) return known.item;
    const confirmation = confirmationForAgents(summary, syncedAt, nowMs);
    let item = known?.item;
    if (known?.entry !== entry || known.confirmation.at !== confirmation.at) {
      item = this.#encode(entry, confirmation.at, item);
    }
    this.#known.set(trustDomain, { entry, syncedAt, confirmation, item: item as AgentItem });
    return item;
  }

  /** Whether `of` returns another item than before. */
  hasChanged(trustDomain: string): boolean {
    const before = this.#known.get(trustDomain)?.item;
    return this.of(trustDomain) !== before;
  }

  forget(trustDomain: string): void {
    this.#known.delete(trustDomain);
  }

  #encode(entry: Entry, confirmedAt: string | undefined, before: AgentItem | undefined): AgentItem {
    const { name } = entry;
    const { collection, object } = reducedFederation(
      name,
      storedFederations.once(entry),
      confirmedAt,
    );
    const value = Buffer.from(JSON.stringify(object));
    // A commit that changes only what agents do not get.
    if (before?.value.equals(value) === true) return before;
    return new AgentItem(this.#section, collection, name, value);
  }
}
