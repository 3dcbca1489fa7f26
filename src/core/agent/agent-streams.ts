// The site's end of the channel (proto/agent.proto): accepts the streams of agents, and sends each the
// state that concerns it. Any replica can serve any agent: an agent says what it holds, and claims and
// states are in the store.

import type { Audit } from '../audit/log.ts';
import type { Clock } from '../clock/clock.ts';
import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';
import { HansaError, toHansaError } from '../errors/error.ts';
import { TokenBuckets } from '../limits/token-buckets.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { AgentCall, PlaneRpc } from '../plane/stream.ts';
import type { Store } from '../store/store.ts';
import type { AgentHoldings } from './agent-holdings.ts';
import type { AgentPresence, AgentSessions } from './agent-sessions.ts';
import type { SignForAgent } from './agent-signer.ts';
import { AgentStream, type AgentStreamParts } from './agent-stream.ts';
import { CatchUp } from './catch-up.ts';
import { ChannelMetrics } from './channel-metrics.ts';
import { type Hello, parseFromAgent, ProtocolError } from './from-agent.ts';
import {
  connectBurst,
  connectPath,
  connectsPerSecond,
  helloWithinMs,
  lastStateWithinMs,
  maxFromAgentBytes,
  pingAfterMs,
  pongWithinMs,
} from './limits.ts';
import type { AgentSections } from './section.ts';
import type { StateVersion } from './state.ts';

export interface AgentStreamsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly store: Store;
  /** Identifies the database. */
  readonly incarnation: string;
  /** The lease epoch of the site, as this replica knows it. Never shrinks. */
  readonly epoch: () => number;
  readonly sections: AgentSections;
  readonly sessions: AgentSessions;
  readonly presence: AgentPresence;
  readonly holdings?: AgentHoldings;
  readonly sign: SignForAgent;
  readonly audit: Pick<Audit, 'deny'>;
}

/** Longest computation before other tasks run, without the writing that follows it. */
const atOnceMs = 3;
/** Most streams before other tasks run: each of them then encodes and writes a message. */
const mostAtOnce = 16;
/** Above the number of agents that a site can have. */
const maxAgents = 65_536;
/** The stream pings before that. It is only reached where the stream itself has failed. */
const messageWithinMs = pingAfterMs + pongWithinMs + 5_000;

export class AgentStreams {
  readonly #parts: AgentStreamsParts;
  readonly #streamParts: AgentStreamParts;
  readonly #catchUp: CatchUp;
  /** By agent. The one before may still be ending. */
  readonly #streams = new Map<string, Set<AgentStream>>();
  /** Streams that need a new state, in order. */
  readonly #due = new Set<AgentStream>();
  readonly #connects: TokenBuckets;
  readonly #stopListening: () => void;
  #isAdvancing = false;

  constructor(parts: AgentStreamsParts) {
    this.#parts = parts;
    const { incarnation, store, epoch } = parts;
    const log = parts.log.with({ component: 'agents' });
    const now = (): Omit<StateVersion, 'hash'> => ({
      incarnation,
      revision: store.revision,
      epoch: epoch(),
    });
    this.#connects = new TokenBuckets({
      clock: parts.clock,
      burst: connectBurst,
      perSecond: connectsPerSecond,
      maxKeys: maxAgents,
    });
    this.#catchUp = new CatchUp({ ...parts, now });
    this.#streamParts = {
      ...parts,
      log,
      now,
      metrics: new ChannelMetrics(parts.metrics, () => this.#streams.size),
      itemsOf: (agent) => parts.sections.itemsOf(agent),
      schedule: (stream) => this.#schedule(stream),
    };
    this.#stopListening = parts.sections.onChange((agents) => this.changed(agents));
  }

  get rpc(): PlaneRpc {
    return {
      path: connectPath,
      allow: 'agent',
      maxMessageBytes: maxFromAgentBytes,
      messageWithinMs,
      idleMs: messageWithinMs,
      graceMs: lastStateWithinMs,
      handle: (call) => this.handle(call),
    };
  }

  /** The state of these agents, or of all, may have changed: its items or the epoch. */
  changed(agents: readonly string[] | undefined): void {
    if (agents === undefined) {
      for (const streams of this.#streams.values()) for (const one of streams) one.changed();
      return;
    }
    for (const agent of agents) for (const one of this.#streams.get(agent) ?? []) one.changed();
  }

  /** Streams end with their calls. */
  stop(): void {
    this.#stopListening();
  }

  async handle(call: AgentCall): Promise<void> {
    const waitSeconds = this.#connects.take(call.agent.name);
    if (waitSeconds !== undefined) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `The agent connects too often. Try again in ${waitSeconds} s.`,
        { details: { retryAfterSeconds: waitSeconds } },
      );
    }
    try {
      await this.#serve(call);
    } catch (error) {
      if (error instanceof ProtocolError) this.#record(call, error);
      throw error;
    }
  }

  /** The dispatcher records callers that exceed a limit, but a malformed message is not a denial to it. */
  #record(call: AgentCall, { code, message }: HansaError): void {
    this.#parts.audit.deny({
      actor: {
        user: call.svid?.id.toString() ?? '',
        groups: [],
        via: 'certificate',
        ...(call.svid === undefined ? {} : { credential: call.svid.serialHex }),
        ...(call.address === undefined ? {} : { address: call.address }),
      },
      verb: 'agent.connect',
      kind: 'Agent',
      name: call.agent.name,
      outcome: 'deny',
      code,
      reason: message,
    });
  }

  async #serve(call: AgentCall): Promise<void> {
    const hello = await this.#hello(call);
    const ended = new AbortController();
    const stream = new AgentStream(this.#streamParts, call);
    this.#add(stream);
    try {
      const running = stream.run();
      void this.#prepare(stream, call, hello, ended.signal);
      await running;
    } finally {
      ended.abort(new Error('the stream has ended'));
      this.#remove(stream);
    }
  }

  async #hello(call: AgentCall): Promise<Hello> {
    const late = Promise.withResolvers<never>();
    const timer = this.#parts.clock.timer(helloWithinMs, () =>
      late.reject(
        new HansaError(
          'HANSA_TIMEOUT',
          `The agent did not say hello within ${helloWithinMs / 1000} seconds.`,
        ),
      ),
    );
    try {
      const first = await Promise.race([call.read(), late.promise]);
      const message = first && parseFromAgent(first);
      if (message?.kind === 'hello') return message.hello;
      throw new ProtocolError('its first message is not a hello');
    } finally {
      timer.cancel();
    }
  }

  /** Claims the session, catches up with the agent, and starts to send. Never rejects. */
  async #prepare(
    stream: AgentStream,
    call: AgentCall,
    hello: Hello,
    ended: AbortSignal,
  ): Promise<void> {
    try {
      const release = await this.#parts.sessions.claim({
        agent: stream.agent,
        session: hello.session,
        serialHex: call.svid?.serialHex ?? '',
        address: call.address,
        signal: ended,
        probe: () => stream.probe(),
        end: (error) => stream.end(error),
      });
      const holdings = this.#parts.holdings?.opened(stream.agent);
      const end = (): void => {
        // First: the release stores what the agent holds.
        holdings?.ended();
        release();
      };
      // It may have ended during the claim.
      if (ended.aborted) {
        end();
        return;
      }
      ended.addEventListener('abort', end, { once: true });
      const isOurs = hello.held?.version.incarnation === this.#parts.incarnation;
      const held = isOurs ? hello.held : undefined;
      if (held !== undefined) await this.#catchUp.reach(held.version, ended);
      if (ended.aborted) return;
      const presence = this.#parts.presence.connected(stream.agent, {
        version: hello.version,
        host: hello.host,
        address: call.address,
      });
      ended.addEventListener('abort', () => presence.disconnected(stream.isLost), {
        once: true,
      });
      stream.begin(held, presence, holdings);
    } catch (error) {
      stream.end(toHansaError(error));
    }
  }

  #add(stream: AgentStream): void {
    const streams = this.#streams.get(stream.agent) ?? new Set();
    this.#streams.set(stream.agent, streams.add(stream));
  }

  #remove(stream: AgentStream): void {
    this.#due.delete(stream);
    const streams = this.#streams.get(stream.agent);
    streams?.delete(stream);
    if (streams?.size === 0) this.#streams.delete(stream.agent);
  }

  #schedule(stream: AgentStream): void {
    this.#due.add(stream);
    if (!this.#isAdvancing) void this.#advance();
  }

  /** Never rejects. */
  async #advance(): Promise<void> {
    const { clock } = this.#parts;
    this.#isAdvancing = true;
    // Changes of one moment make one step.
    await yieldToEventLoop();
    let untilMs = clock.monotonic() + atOnceMs;
    let count = 0;
    for (const stream of this.#due) {
      this.#due.delete(stream);
      try {
        stream.advance();
      } catch (error) {
        this.#streamParts.log.error('cannot compute the state of an agent', {
          agent: stream.agent,
          error,
        });
        stream.end(toHansaError(error));
      }
      if (++count < mostAtOnce && clock.monotonic() < untilMs) continue;
      await yieldToEventLoop();
      untilMs = clock.monotonic() + atOnceMs;
      count = 0;
    }
    this.#isAdvancing = false;
  }
}
