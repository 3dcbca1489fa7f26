// Pings of the site on one stream: after silence, and to find out which of two processes is alive.

import { create } from '@bufbuild/protobuf';
import { PingSchema } from '../../../proto/gen/agent_pb.ts';
import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { ProtocolError } from './from-agent.ts';
import { pingAfterMs, pongWithinMs } from './limits.ts';
import type { Outbox } from './outbox.ts';
import { encodeToAgent } from './state-messages.ts';

export interface StreamPingsParts {
  readonly clock: Clock;
  readonly outbox: Pick<Outbox, 'urgent'>;
  /** The agent did not answer. */
  readonly lost: (error: HansaError) => void;
}

/** Time for an agent to answer a ping that decides between two sessions: a live one needs a round trip. */
const probeWithinMs = 3_000;

interface Ping {
  readonly nonce: Buffer;
  readonly answered: Promise<boolean>;
  readonly settle: (answered: boolean) => void;
}

export class StreamPings {
  readonly #parts: StreamPingsParts;
  #count = 0;
  #ping: Ping | undefined;
  #heardMs: number;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(parts: StreamPingsParts) {
    this.#parts = parts;
    this.#heardMs = parts.clock.monotonic();
    this.#watch(pingAfterMs);
  }

  /** A message of the agent arrived. */
  heard(): void {
    this.#heardMs = this.#parts.clock.monotonic();
  }

  /** Throws where the site did not send this nonce. */
  ponged(nonce: Buffer): void {
    const ping = this.#ping;
    if (ping === undefined || !ping.nonce.equals(nonce)) {
      throw new ProtocolError('it sent a pong that the site did not expect');
    }
    this.#ping = undefined;
    ping.settle(true);
    this.#watch(pingAfterMs);
  }

  /** Pings now. Resolves to whether the agent answers in time. */
  async probe(): Promise<boolean> {
    const { answered } = this.#send();
    const late = Promise.withResolvers<boolean>();
    const timer = this.#parts.clock.timer(probeWithinMs, () => late.resolve(false));
    try {
      return await Promise.race([answered, late.promise]);
    } finally {
      timer.cancel();
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#ping?.settle(false);
  }

  /** One at a time: the answer to an earlier ping shows the same. */
  #send(): Ping {
    if (this.#ping !== undefined) return this.#ping;
    const nonce = Buffer.alloc(8);
    nonce.writeUInt32BE(++this.#count, 4);
    const { promise: answered, resolve: settle } = Promise.withResolvers<boolean>();
    const ping: Ping = { nonce, answered, settle };
    this.#ping = ping;
    this.#timer?.cancel();
    if (this.#isStopped) settle(false);
    const message = encodeToAgent({ case: 'ping', value: create(PingSchema, { nonce }) });
    // Counts from when it was written: it may wait behind a large message.
    this.#parts.outbox.urgent(message, () => {
      if (this.#ping === ping) this.#awaitPong();
    });
    return ping;
  }

  #awaitPong(): void {
    const message = `The agent did not answer a ping within ${pongWithinMs / 1000} seconds.`;
    this.#after(pongWithinMs, () => this.#parts.lost(new HansaError('HANSA_TIMEOUT', message)));
  }

  /** One timer for the stream: it restarts with the remaining time, not with each message. */
  #watch(inMs: number): void {
    this.#after(inMs, () => {
      const leftMs = this.#heardMs + pingAfterMs - this.#parts.clock.monotonic();
      if (leftMs > 0) this.#watch(leftMs);
      else this.#send();
    });
  }

  #after(delayMs: number, fire: () => void): void {
    this.#timer?.cancel();
    if (!this.#isStopped) this.#timer = this.#parts.clock.timer(delayMs, fire);
  }
}
