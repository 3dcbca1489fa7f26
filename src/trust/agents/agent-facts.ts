// Facts about connected agents, for their status: when the site last heard of them and what they report.
// Written together about every ten seconds, because every agent sends several messages per minute.

import { timestamp } from '../../api/object.ts';
import type { AboutAgent, AgentPresence, PresentAgent } from '../../core/agent/agent-sessions.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { Store } from '../../core/store/store.ts';

export interface AgentFactsParts {
  readonly clock: Clock;
  readonly store: Pick<Store, 'facts'>;
  /** The name of this process for people. */
  readonly replica: string;
  /** The uid of the Agent object; undefined where there is none (yet). */
  readonly uidOf: (agent: string) => string | undefined;
}

/** The collection of the Agent objects: facts become part of their status. */
const collection = 'agents';
const writeEveryMs = 10_000;

export class AgentFacts implements AgentPresence {
  readonly #parts: AgentFactsParts;
  /** Unwritten facts, by agent. */
  readonly #due = new Map<string, Readonly<Record<string, unknown>>>();
  /** The number of streams of each connected agent. */
  readonly #connected = new Map<string, number>();
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(parts: AgentFactsParts) {
    this.#parts = parts;
  }

  connected(agent: string, { version, host }: AboutAgent): PresentAgent {
    const { clock, replica } = this.#parts;
    const say = (facts: Readonly<Record<string, unknown>>): void =>
      this.#note(agent, { ...facts, lastSeenAt: timestamp(clock.now()) });
    this.#connected.set(agent, (this.#connected.get(agent) ?? 0) + 1);
    // A new stream is written at once: a user may be waiting for it.
    say({ version, host, replica, isLost: false });
    this.#write(agent);
    return {
      seen: () => say({}),
      reported: ({ workloads, problems }) => say({ workloads, problems }),
      disconnected: (isLost) => {
        // Not a message: the agent was last seen when one arrived.
        if (isLost) this.#note(agent, { isLost });
        const left = (this.#connected.get(agent) ?? 1) - 1;
        if (left > 0) this.#connected.set(agent, left);
        else this.#connected.delete(agent);
        this.#write(agent);
      },
    };
  }

  /** Writes the rest. Streams that end later change nothing. */
  stop(): void {
    this.#writeAll();
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #note(agent: string, facts: Readonly<Record<string, unknown>>): void {
    this.#due.set(agent, { ...this.#due.get(agent), ...facts });
    this.#arm();
  }

  #arm(): void {
    if (this.#isStopped) return;
    this.#timer ??= this.#parts.clock.timer(writeEveryMs, () => {
      this.#timer = undefined;
      this.#writeAll();
    });
  }

  #writeAll(): void {
    for (const agent of this.#due.keys()) this.#write(agent);
  }

  #write(agent: string): void {
    const facts = this.#due.get(agent);
    if (facts === undefined || this.#isStopped) return;
    const uid = this.#parts.uidOf(agent);
    if (uid !== undefined) this.#parts.store.facts.merge(collection, agent, { uid, ...facts });
    // The object of an agent that has just joined may follow in a moment. A forgotten one has no facts.
    if (uid !== undefined || !this.#connected.has(agent)) this.#due.delete(agent);
    else this.#arm();
  }
}
