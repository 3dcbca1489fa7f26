// The agent's end of the channel: connects to the site, keeps the state of the agent current, and sends
// signing requests. It reconnects with backoff and jitter for as long as it runs. `connect` is passed
// in, so that tests and the simulation can replace the network.

import type { SignResponse } from '../../../proto/gen/agent_pb.ts';
import { type Clock, type Random, sleep } from '../clock/clock.ts';
import { HansaError, toHansaError } from '../errors/error.ts';
import type { Log } from '../log/log.ts';
import type { HeldState, NextState } from './held-state.ts';
import { sessionBytes } from './limits.ts';
import { OpenStream } from './open-stream.ts';
import { type BuildSignRequest, SignRequests } from './sign-requests.ts';
import type { AgentItem } from './state.ts';

/** One stream to the site, which is verified before `connect` resolves. */
export interface SiteStream {
  /** The next message. Rejects when the stream has ended, with the status that the site gave. */
  read(): Promise<Buffer>;
  write(message: Uint8Array): void;
  /** Bytes that the site has not read yet. */
  readonly backlogBytes: number;
  /** RFC 5705: bytes that only the two ends of this connection know. */
  readonly exporter: Buffer;
  close(): void;
}

export interface AgentReport {
  readonly entries: number;
  readonly workloads: number;
  readonly problems: readonly string[];
}

export interface AgentLinkParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly version: string;
  readonly host: string;
  readonly state: HeldState;
  readonly connect: (signal: AbortSignal) => Promise<SiteStream>;
  /** Why the items of a step cannot be used; undefined if they can. The agent then refuses the step. */
  readonly problemOf: (items: readonly AgentItem[]) => string | undefined;
  /**
   * Makes an accepted step visible to this process, and stores what the next connection needs. The
   * agent acknowledges the step afterwards. Rejects to end `run` with the error.
   */
  readonly apply: (next: NextState) => Promise<void>;
  /** Stores the newest state for a restart. Nothing waits for it: disks can be slow. Must not reject. */
  readonly keep: () => Promise<void>;
  /**
   * The site refused this agent, when it connected or later. Resolves when connecting again may
   * succeed; rejects to end `run` with the error.
   */
  readonly denied: (error: HansaError) => Promise<void>;
  readonly report: () => AgentReport;
}

/** All times are wall time. */
export interface LinkStatus {
  /** Whether a stream is open on which the site sent a state. */
  readonly connected: boolean;
  /** Since when it is so. */
  readonly sinceMs: number;
  /** When the site was last heard while connected; undefined: not since the start. */
  readonly lastContactMs: number | undefined;
  /** Why the last stream ended or could not be opened. */
  readonly lastError: string | undefined;
  readonly nextTryMs: number | undefined;
}

/** Most retries after a failure happen within this time; it doubles with every failure. */
const firstRetryMs = 1_000;
const mostRetryMs = 30_000;
/** No retry comes sooner. */
const leastRetryMs = 50;
/** A stream that lasted this long was good: the next retry is a first one. */
const goodStreamMs = 30_000;
/** How long a planned reconnect waits for signatures that are under way. */
const drainMs = 5_000;

/** The time before retry number `attempt`, from 0: exponential backoff with full jitter. */
export function retryDelayMs(attempt: number, random: Pick<Random, 'unit'>): number {
  const mostMs = Math.min(mostRetryMs, firstRetryMs * 2 ** Math.min(attempt, 10));
  return leastRetryMs + random.unit() * (mostMs - leastRetryMs);
}

export class AgentLink {
  readonly #parts: AgentLinkParts;
  readonly #signing: SignRequests;
  readonly #listeners = new Set<() => void>();
  #session: Uint8Array | undefined;
  #stream: OpenStream | undefined;
  /** The stream is to end when no signature is under way. */
  #leaving = false;
  /** The first or a planned connection is under way: requests wait for the next stream. */
  #resuming = true;
  #status: LinkStatus;
  /** What the listeners know. */
  #toldConnected = false;
  /** Monotonic time of the last contact; undefined: not since the start. */
  #contactAt: number | undefined;
  /** Why this process cannot use a state that it accepted. */
  #unusable: HansaError | undefined;

  constructor(parts: AgentLinkParts) {
    this.#parts = parts;
    this.#status = {
      connected: false,
      sinceMs: parts.clock.now(),
      lastContactMs: undefined,
      lastError: undefined,
      nextTryMs: undefined,
    };
    this.#signing = new SignRequests(
      parts.clock,
      (id, build) => this.#send(id, build),
      () => this.#stream?.ping(),
    );
  }

  get status(): LinkStatus {
    const lastContactMs = this.#stream?.contactMs ?? this.#status.lastContactMs;
    return { ...this.#status, lastContactMs };
  }

  /** How long ago the site was last heard while connected; undefined: not since the start. */
  get silentMs(): number | undefined {
    const at = this.#stream?.contactAt ?? this.#contactAt;
    return at === undefined ? undefined : this.#parts.clock.monotonic() - at;
  }

  /** Calls `listener` when the link connects or disconnects. Returns how to stop. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Sends one request. Rejects with HANSA_UNAVAILABLE where there is no stream, it ends, or the site
   * does not answer in time. Never repeats a request.
   */
  sign(build: BuildSignRequest): Promise<SignResponse> {
    if (!this.#status.connected && !this.#resuming) {
      return Promise.reject(notConnected(this.#status.lastError ?? 'it stops.'));
    }
    return this.#signing.add(build, !this.#resuming);
  }

  /** Connects again with the current SVID, without a pause, after signatures under way. */
  reconnect(): void {
    if (this.#stream === undefined || this.#leaving) return;
    this.#leaving = true;
    this.#resuming = true;
    this.#stream.leave(this.#signing.inFlight === 0 ? 0 : drainMs);
  }

  /** Returns when `signal` aborts. Rejects with the error of `denied` or `apply`. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, log } = this.#parts;
    this.#session ??= await random.bytes(sessionBytes);
    let attempt = 0;
    while (!signal.aborted) {
      const startedMs = clock.monotonic();
      const error = await this.#once(signal);
      if (this.#unusable !== undefined) throw this.#unusable;
      if (signal.aborted) return;
      if (this.#leaving) {
        this.#leaving = false;
        continue;
      }
      this.#resuming = false;
      this.#signing.failWaiting(notConnected(error.message));
      log.warn('no connection to the site', { error: error.message, code: error.code });
      if (error.code === 'HANSA_FORBIDDEN' || error.code === 'HANSA_UNAUTHENTICATED') {
        await this.#parts.denied(error);
      }
      if (clock.monotonic() - startedMs >= goodStreamMs) attempt = 0;
      const delayMs = retryDelayMs(attempt++, random);
      this.#status = { ...this.#status, nextTryMs: clock.now() + delayMs };
      await sleep(clock, delayMs, signal).catch(() => undefined);
    }
  }

  /** One stream, from its beginning to its end. Resolves to the reason. */
  async #once(signal: AbortSignal): Promise<HansaError> {
    const { connect, log } = this.#parts;
    let error: HansaError;
    try {
      const stream = await connect(signal);
      const close = (): void => stream.close();
      signal.addEventListener('abort', close, { once: true });
      try {
        await this.#converse(stream);
        error = new HansaError('HANSA_UNAVAILABLE', 'The stream ended.');
      } finally {
        signal.removeEventListener('abort', close);
        stream.close();
      }
    } catch (caught) {
      error = toHansaError(caught);
      if (error.code === 'HANSA_INTERNAL') log.error('the channel to the site failed', { error });
    }
    this.#ended(error, signal.aborted);
    return error;
  }

  async #converse(stream: SiteStream): Promise<void> {
    const apply = (next: NextState): Promise<void> =>
      this.#parts.apply(next).catch((error: unknown) => {
        this.#unusable = toHansaError(error);
        throw error;
      });
    const open = new OpenStream({ ...this.#parts, apply }, stream, () => this.#connected());
    this.#stream = open;
    open.hello(this.#session as Uint8Array);
    await open.serve((response) => {
      this.#signing.answered(response);
      if (!this.#leaving) this.#signing.flush();
      else if (this.#signing.inFlight === 0) open.leave(0);
    });
  }

  #connected(): void {
    const { clock, log, state } = this.#parts;
    this.#status = {
      connected: true,
      sinceMs: clock.now(),
      lastContactMs: clock.now(),
      lastError: undefined,
      nextTryMs: undefined,
    };
    log.info('connected to the site', { revision: state.version?.revision, items: state.size });
    this.#resuming = false;
    this.#signing.flush();
    this.#tell();
  }

  #ended(error: HansaError, isStopping: boolean): void {
    const { clock } = this.#parts;
    const lastContactMs = this.status.lastContactMs;
    this.#contactAt = this.#stream?.contactAt ?? this.#contactAt;
    this.#stream?.end();
    this.#stream = undefined;
    this.#signing.failSent(
      new HansaError('HANSA_UNAVAILABLE', `The connection to the site ended: ${error.message}`),
    );
    const wasConnected = this.#status.connected;
    this.#status = {
      connected: false,
      sinceMs: wasConnected ? clock.now() : this.#status.sinceMs,
      lastContactMs,
      lastError: this.#leaving || isStopping ? undefined : error.message,
      nextTryMs: undefined,
    };
    // A planned reconnect is told only if it fails.
    if (this.#toldConnected && !this.#leaving) this.#tell();
  }

  #send(id: bigint, build: BuildSignRequest): void {
    const stream = this.#stream;
    if (stream === undefined) throw new HansaError('HANSA_UNAVAILABLE', 'There is no stream.');
    stream.send({
      case: 'sign',
      value: { ...build({ exporter: stream.exporter, request: id }), id },
    });
  }

  #tell(): void {
    this.#toldConnected = this.#status.connected;
    for (const listener of this.#listeners) listener();
  }
}

/** Also where a site cannot be verified: for workloads, there is none at the moment. */
function notConnected(why: string): HansaError {
  return new HansaError('HANSA_UNAVAILABLE', `The agent is not connected to its site: ${why}`);
}
