// Follows what the agents hold that are connected to this process, and knows from the store about all
// others. So the status of a suspended or revoked peer names the agents that may still admit it.

import { agentKind } from '../../../api/kinds/agent.ts';
import { siteAgentName } from '../../../api/values/agent-name.ts';
import type { AgentHoldings, StreamHoldings } from '../../../core/agent/agent-holdings.ts';
import type { AgentItem, Difference } from '../../../core/agent/state.ts';
import type { Clock } from '../../../core/clock/clock.ts';
import type { RemoteEnforcement, RemoteState } from '../../../core/plane/enforcement.ts';
import { StoreSource } from '../../../core/reconcile/source.ts';
import { kindReader } from '../../../core/store/reader.ts';
import type { Commit, Store } from '../../../core/store/store.ts';
import { agentSession, liveSession, sessionsCollection } from '../agent-session-records.ts';
import { allTrusted, changedPeers, trustedOf } from './held-peers.ts';
import { holdingsCollection, holdingsReader } from './holdings-records.ts';

export interface HeldByAgentsParts {
  readonly store: Store;
  readonly clock: Clock;
}

interface Held {
  /** Acknowledged on this stream. Undefined: nothing yet, so the agent holds what it held before. */
  confirmed: readonly AgentItem[] | undefined;
  /** Sent, and not acknowledged: the agent may hold either. */
  sent: { readonly items: readonly AgentItem[]; readonly change: Difference } | undefined;
  /** The peers that this stream has withdrawn from the agent. */
  readonly withdrawn: Set<string>;
}

const agents = kindReader(agentKind);

export class HeldByAgents implements AgentHoldings, RemoteEnforcement {
  readonly kind = 'agent';
  readonly #parts: HeldByAgentsParts;
  /** By agent. The stream before may still be ending. */
  readonly #streams = new Map<string, Set<Held>>();
  /** What agents held when their last stream here ended; undefined: that is not known. */
  readonly #left = new Map<string, readonly string[] | undefined>();
  readonly #listeners = new Set<() => void>();
  readonly #stop: readonly (() => void)[];

  constructor(parts: HeldByAgentsParts) {
    this.#parts = parts;
    const { store, clock } = parts;
    this.#stop = [sessionsCollection, agentKind.plural].map((collection) => {
      const source = new StoreSource({ store, clock, collection }).start({
        add: () => this.#tell(),
        // The store is closed.
        ended: () => undefined,
      });
      return () => source.stop();
    });
  }

  stop(): void {
    for (const stop of this.#stop) stop();
    this.#listeners.clear();
  }

  opened(agent: string): StreamHoldings {
    const held: Held = { confirmed: undefined, sent: undefined, withdrawn: new Set() };
    this.#streams.set(agent, (this.#streams.get(agent) ?? new Set()).add(held));
    this.#left.delete(agent);
    this.#tell();
    return {
      sends: (items, change) => {
        held.sent = { items, change };
      },
      acknowledged: () => {
        if (held.sent !== undefined) confirm(held, held.sent);
        this.#tell();
      },
      refused: () => {
        held.sent = undefined;
      },
      ended: () => this.#ended(agent, held),
    };
  }

  #ended(agent: string, held: Held): void {
    const streams = this.#streams.get(agent);
    streams?.delete(held);
    if (streams?.size !== 0) return;
    this.#streams.delete(agent);
    const { confirmed, sent } = held;
    const before = confirmed && allTrusted(confirmed);
    const next = allTrusted(sent?.items ?? []);
    this.#left.set(agent, before && next && [...new Set([...before, ...next])].toSorted());
    this.#tell();
  }

  /** The changes with which the end of the agent's stream is stored. */
  released(agent: string): Pick<Commit, 'put' | 'delete'> {
    if (!this.#left.has(agent)) return {};
    const peers = this.#left.get(agent);
    if (peers === undefined) return this.lost(agent);
    const place = { collection: holdingsCollection, name: agent };
    const known = this.#parts.store.get(holdingsCollection, agent);
    const bytes = Buffer.from(JSON.stringify({ peers }));
    return known?.value.equals(bytes) === true ? {} : { put: [{ ...place, encode: () => bytes }] };
  }

  /** The changes with which another stream takes the place of one whose end is not stored. */
  lost(agent: string): Pick<Commit, 'delete'> {
    const known = this.#parts.store.get(holdingsCollection, agent);
    return known === undefined ? {} : { delete: [{ collection: holdingsCollection, name: agent }] };
  }

  connected(peer: string, known: ReadonlySet<string>): ReadonlyMap<string, boolean> {
    const found = new Map<string, boolean>();
    const asked = new Set([peer]);
    for (const [agent, streams] of this.#streams) {
      let wasWithdrawn = false;
      let mayTrust = false;
      for (const { confirmed, sent, withdrawn } of streams) {
        wasWithdrawn ||= withdrawn.has(peer);
        mayTrust ||=
          confirmed === undefined
            ? this.#heldBefore(agent)?.includes(peer) !== false
            : trustedOf(confirmed, asked).size > 0;
        mayTrust ||= sent !== undefined && trustedOf(sent.items, asked).size > 0;
      }
      if (mayTrust) found.set(agent, false);
      else if (wasWithdrawn || known.has(agent)) found.set(agent, true);
    }
    return found;
  }

  others(peer: string): ReadonlyMap<string, RemoteState> {
    const { store, clock } = this.#parts;
    const nowMs = clock.now();
    const found = new Map<string, RemoteState>();
    for (const { metadata, status } of agents.list(store)) {
      const { name } = metadata;
      if (name === siteAgentName || metadata.deletionTimestamp !== undefined) continue;
      if (this.#streams.has(name)) continue;
      const session = agentSession(store, name);
      if (session !== undefined && session.hasEnded !== true) {
        // A replica that died has not said what the agent holds.
        found.set(name, liveSession(store, name, nowMs) === undefined ? 'unknown' : 'elsewhere');
        continue;
      }
      const before = this.#heldBefore(name);
      const hasNothing =
        before === undefined
          ? status?.state === undefined || status.state === 'Joined'
          : !before.includes(peer);
      found.set(name, hasNothing ? 'rejects' : 'unknown');
    }
    return found;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #heldBefore(agent: string): readonly string[] | undefined {
    return holdingsReader.get(this.#parts.store, agent)?.peers;
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

function confirm(held: Held, { items, change }: NonNullable<Held['sent']>): void {
  const changed = changedPeers([...change.put, ...change.delete], items, held.confirmed ?? []);
  if (changed.size > 0) {
    const now = trustedOf(items, changed);
    const before = held.confirmed === undefined ? changed : trustedOf(held.confirmed, changed);
    for (const name of changed) {
      if (now.has(name)) held.withdrawn.delete(name);
      else if (before.has(name)) held.withdrawn.add(name);
    }
  }
  held.confirmed = items;
  held.sent = undefined;
}
