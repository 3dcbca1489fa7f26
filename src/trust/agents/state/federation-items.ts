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
  readonly #changed: (trustDomain: string) => void;
  readonly #known = new Map<string, Known>();

  /** Confirmations and time have no watch: `changed` is called whenever `of` finds another item than before. */
  constructor(
    store: Pick<Store, 'get' | 'facts'>,
    clock: Pick<Clock, 'now'>,
    section: string,
    changed: (trustDomain: string) => void,
  ) {
    this.#store = store;
    this.#clock = clock;
    this.#section = section;
    this.#changed = changed;
  }

  /** Undefined if there is no such federation. Returns the same item until it changes. */
  of(trustDomain: string): AgentItem | undefined {
    const before = this.#known.get(trustDomain);
    const known = this.#look(trustDomain, before);
    if (known === before) return known?.item;
    if (known === undefined) this.#known.delete(trustDomain);
    else this.#known.set(trustDomain, known);
    if (known?.item !== before?.item) this.#changed(trustDomain);
    return known?.item;
  }

  forget(trustDomain: string): void {
    this.#known.delete(trustDomain);
  }

  #look(trustDomain: string, known: Known | undefined): Known | undefined {
    const entry = this.#store.get(federationsCollection, trustDomain);
    if (entry === undefined) return undefined;
    const facts = this.#store.facts.get(federationsCollection, trustDomain);
    const summary = federationSummaries.of(entry);
    const syncedAt = liveSyncedAt(summary, facts);
    const nowMs = this.#clock.now();
    const isSame = known?.entry === entry && known.syncedAt === syncedAt;
    if (isSame && !(nowMs >= (known.confirmation.changesAtMs ?? Infinity))) return known;
    const confirmation = confirmationForAgents(summary, syncedAt, nowMs);
    const item =
      known?.entry === entry && known.confirmation.at === confirmation.at
        ? known.item
        : this.#encode(entry, confirmation.at, known?.item);
    return { entry, syncedAt, confirmation, item };
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
