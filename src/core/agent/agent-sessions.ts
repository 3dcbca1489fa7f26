// The contract of session claims, which find out that two processes use the identity of one agent.

import type { HansaError } from '../errors/error.ts';

/** A stream that wants to serve its agent. */
export interface ClaimingStream {
  readonly agent: string;
  /** The digest of the session of the process, in hex. */
  readonly session: string;
  /** The serial number of the SVID of the stream, in hex. */
  readonly serialHex: string;
  readonly address: string | undefined;
  /** Aborted when the stream ends. */
  readonly signal: AbortSignal;
  /** Pings the agent now. Resolves to whether it answers in time. */
  probe(): Promise<boolean>;
  end(error: HansaError): void;
}

export interface AgentSessions {
  /**
   * Resolves when the stream is the only one of its agent, at all replicas. A stream of the same session
   * replaces the one before at once. One of another session waits until the one before has not answered a
   * ping. If that one answers, the agent is in conflict: rejects with HANSA_UNAVAILABLE, for every session
   * but the one that holds the claim, until an operator decides. Call the result when the stream has ended.
   */
  claim(stream: ClaimingStream): Promise<() => void>;
}

/** What the channel tells about agents, for their status. Methods are quick and without I/O. */
export interface AgentPresence {
  /** Returns how to report more about this stream. */
  connected(agent: string, about: AboutAgent): PresentAgent;
}

export interface AboutAgent {
  readonly version: string;
  readonly host: string;
  readonly address: string | undefined;
}

export interface PresentAgent {
  /** A message arrived. */
  seen(): void;
  reported(report: {
    readonly entries: number;
    readonly workloads: number;
    readonly problems: readonly string[];
  }): void;
  /** `isLost`: the agent did not answer. Otherwise one of both sides has ended the stream. */
  disconnected(isLost: boolean): void;
}
