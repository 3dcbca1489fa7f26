// The contract of what agents hold: the channel tells which states it sent, and which of them agents
// acknowledged. So the site knows whether a withdrawal has reached a machine.

import type { AgentItem, Difference } from './state.ts';

/** Methods are quick and without I/O. */
export interface AgentHoldings {
  /** A stream of the agent holds the claim and begins. */
  opened(agent: string): StreamHoldings;
}

export interface StreamHoldings {
  /** The agent may hold this state from now on. `change`: what it changes at the agent. */
  sends(items: readonly AgentItem[], change: Difference): void;
  /** The agent holds the state that was sent last, and nothing else. */
  acknowledged(): void;
  /** The agent refused the state that was sent last. */
  refused(): void;
  ended(): void;
}
