// One stream of an agent at the site: sends the newest state after each acknowledgement, answers
// signing requests, and pings. Nothing that other replicas need lives here.

import { create } from '@bufbuild/protobuf';
import {
  PingSchema,
  PongSchema,
  RefusalSchema,
  JwtResultSchema,
  type SignRequest,
  type SignResponse,
  SignResponseSchema,
  X509ResultSchema,
} from '../../../proto/gen/agent_pb.ts';
import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError, toHansaError } from '../errors/error.ts';
import { TokenBuckets } from '../limits/token-buckets.ts';
import type { Log } from '../log/log.ts';
import type { AgentCall } from '../plane/stream.ts';
import type { PresentAgent } from './agent-sessions.ts';
import type { SignForAgent, SigningAgent } from './agent-signer.ts';
import type { ChannelMetrics } from './channel-metrics.ts';
import { type HeldState, parseFromAgent, ProtocolError } from './from-agent.ts';
import {
  acknowledgeWithinMs,
  agentExporterBytes,
  agentExporterLabel,
  maxSignBatch,
  maxUnansweredSignRequests,
  messageBurst,
  messagesPerSecond,
  pingAfterMs,
  pongWithinMs,
} from './limits.ts';
import { Outbox } from './outbox.ts';
import {
  difference,
  hashState,
  type AgentItem,
  type HeldItem,
  type StateVersion,
} from './state.ts';
import { encodeToAgent, stateMessages } from './state-messages.ts';

/** Time for an agent to answer a ping that decides between two sessions: a live one needs a round trip. */
const probeWithinMs = 3_000;

export interface AgentStreamParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: ChannelMetrics;
  readonly sign: SignForAgent;
  readonly itemsOf: (agent: string) => readonly AgentItem[];
  /** The version of the current store, without the hash. */
  readonly now: () => Omit<StateVersion, 'hash'>;
  /** Calls `advance` soon, in turn with other streams. */
  readonly schedule: (stream: AgentStream) => void;
}

interface Ping {
  readonly nonce: Buffer;
  readonly answered: Promise<boolean>;
  readonly settle: (answered: boolean) => void;
}

export class AgentStream {
  readonly agent: string;
  readonly #parts: AgentStreamParts;
  readonly #call: AgentCall;
  readonly #outbox: Outbox;
  /** Undefined until the stream holds the claim: another process must not speak for the agent. */
  #presence: PresentAgent | undefined;
  readonly #caller: SigningAgent;
  readonly #exporter: Buffer;
  readonly #budget: TokenBuckets<number>;
  readonly #over = Promise.withResolvers<never>();
  readonly #ready = Promise.withResolvers<void>();
  #isReady = false;
  /** The items that the agent holds; undefined where it needs a whole state. */
  #held: { readonly version: StateVersion; readonly items: readonly HeldItem[] } | undefined;
  /** Sent, and not acknowledged. */
  #sent:
    | {
        readonly version: StateVersion;
        readonly items: readonly AgentItem[];
        readonly whole: boolean;
        /** Whether the stream ends with it. */
        readonly isLast: boolean;
      }
    | undefined;
  /** Whether the agent has confirmed a state on this stream. */
  #isConfirmed = false;
  #isDirty = false;
  #unanswered = 0;
  #pings = 0;
  #ping: Ping | undefined;
  #heardMs: number;
  #isOver = false;
  readonly #timers = new Map<'idle' | 'acknowledge', Timer>();

  constructor(parts: AgentStreamParts, call: AgentCall) {
    this.#parts = parts;
    this.#call = call;
    this.agent = call.agent.name;
    this.#caller = {
      name: this.agent,
      address: call.address,
      serialHex: call.svid?.serialHex ?? '',
    };
    this.#exporter = call.exportKeyingMaterial(agentExporterLabel, agentExporterBytes);
    this.#outbox = new Outbox(call, (bytes) => parts.metrics.sentBytes(bytes));
    const { clock } = parts;
    this.#budget = new TokenBuckets({
      clock,
      burst: messageBurst,
      perSecond: messagesPerSecond,
      maxKeys: 1,
    });
    this.#heardMs = clock.monotonic();
    // Whoever waits for them may have gone.
    for (const { promise } of [this.#over, this.#ready]) promise.catch(() => undefined);
  }

  /** Serves the stream until the agent closes it or something ends it. */
  async run(): Promise<void> {
    this.#watchIdle(pingAfterMs);
    try {
      await Promise.race([this.#read(), this.#outbox.run(), this.#over.promise]);
    } finally {
      this.#isOver = true;
      this.#outbox.stop();
      for (const timer of this.#timers.values()) timer.cancel();
      this.#ping?.settle(false);
      this.#ready.reject(new Error('the stream has ended'));
    }
  }

  /** Starts to send states: the claim is held, and the store has reached the agent's revision. */
  begin(held: HeldState | undefined, presence: PresentAgent): void {
    this.#presence = presence;
    this.#held = held;
    this.#isReady = true;
    this.#ready.resolve();
    this.changed();
  }

  end(error: HansaError): void {
    this.#over.reject(error);
  }

  /** The items of the agent may have changed. */
  changed(): void {
    this.#isDirty = true;
    if (this.#isReady && this.#sent === undefined && !this.#isOver) this.#parts.schedule(this);
  }

  /** Sends the newest state, unless the agent holds it or has not acknowledged the last one. */
  advance(): void {
    if (!this.#isDirty || this.#sent !== undefined || this.#isOver) return;
    this.#isDirty = false;
    const items = this.#parts.itemsOf(this.agent);
    const now = this.#parts.now();
    const held = this.#held;
    const isSame = held !== undefined && held.version.epoch === now.epoch;
    if (this.#isConfirmed && isSame && held.items === items) return;
    const version = { ...now, hash: hashState(items) };
    if (this.#isConfirmed && isSame && held.version.hash.equals(version.hash)) return;
    const step = held === undefined ? { put: items, delete: [] } : difference(held.items, items);
    const isLast = this.#call.isRevoked === true;
    this.#sent = { version, items, whole: held === undefined, isLast };
    this.#parts.metrics.sentState(held === undefined ? 'whole' : 'change');
    const messages = stateMessages({ ...step, version, base: held?.version.hash });
    this.#outbox.state(messages, () => this.#awaitAcknowledgement(version));
  }

  /** Counts from the last message: a large state may take long on a slow connection. */
  #awaitAcknowledgement(version: StateVersion): void {
    // The agent may have been faster than the event that the message was written.
    if (this.#sent?.version !== version) return;
    this.#after('acknowledge', acknowledgeWithinMs, () =>
      this.end(
        new HansaError(
          'HANSA_TIMEOUT',
          `The agent did not acknowledge a state within ${acknowledgeWithinMs / 1000} seconds.`,
        ),
      ),
    );
  }

  async probe(): Promise<boolean> {
    const { answered } = this.#sendPing();
    const late = Promise.withResolvers<boolean>();
    const timer = this.#parts.clock.timer(probeWithinMs, () => late.resolve(false));
    try {
      return await Promise.race([answered, late.promise]);
    } finally {
      timer.cancel();
    }
  }

  async #read(): Promise<void> {
    for (let next = await this.#call.read(); next !== undefined; next = await this.#call.read()) {
      if (this.#isOver) return;
      this.#heardMs = this.#parts.clock.monotonic();
      this.#presence?.seen();
      this.#handle(next);
    }
  }

  /** Never waits: a signing request must not delay a pong. */
  #handle(bytes: Buffer): void {
    const message = parseFromAgent(bytes);
    switch (message.kind) {
      case 'hello':
        throw outOfOrder('a second hello');
      case 'acknowledge':
        return this.#acknowledged(message.version, message.refused);
      case 'pong':
        return this.#ponged(message.nonce);
      case 'ping': {
        this.#spend();
        const value = create(PongSchema, { nonce: message.nonce });
        return this.#outbox.pong(encodeToAgent({ case: 'pong', value }));
      }
      case 'unknown':
        return this.#spend();
      case 'report':
        this.#spend();
        return this.#presence?.reported(message.report);
      case 'sign':
        this.#spend();
        return this.#sign(message.request);
    }
  }

  #spend(): void {
    if (this.#budget.take(0) === undefined) return;
    throw new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `The agent sent more than ${messagesPerSecond} messages per second.`,
    );
  }

  #acknowledged({ revision, hash }: StateVersion, refused: string): void {
    const sent = this.#sent;
    if (sent === undefined || this.#outbox.isSendingState) throw outOfOrder('an acknowledgement');
    if (sent.version.revision !== revision || !sent.version.hash.equals(hash)) {
      throw outOfOrder(`an acknowledgement of revision ${revision}`);
    }
    this.#cancel('acknowledge');
    this.#sent = undefined;
    if (refused === '') {
      this.#held = { version: sent.version, items: sent.items };
      this.#isConfirmed = true;
      if (sent.isLast) throw revoked();
    } else {
      this.#parts.metrics.refusedState();
      this.#parts.log.warn('an agent refused a state', { agent: this.agent, refused, revision });
      if (sent.whole) {
        throw new HansaError('HANSA_UNAVAILABLE', `The agent refused a whole state: ${refused}`);
      }
      this.#held = undefined;
      this.#isDirty = true;
    }
    if (this.#isDirty) this.changed();
  }

  #sign(request: SignRequest): void {
    const count = request.x509.length + request.jwt.length;
    if (count > maxSignBatch) {
      throw new HansaError(
        'HANSA_TOO_LARGE',
        `A signing request has ${count} parts: the limit is ${maxSignBatch}.`,
      );
    }
    if (this.#unanswered >= maxUnansweredSignRequests) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `The agent has more than ${maxUnansweredSignRequests} unanswered signing requests.`,
      );
    }
    this.#unanswered++;
    this.#parts.metrics.signRequest();
    void this.#answer(request);
  }

  /** Never rejects. */
  async #answer(request: SignRequest): Promise<void> {
    const message = encodeToAgent({ case: 'signed', value: await this.#responseTo(request) });
    // It counts until the agent has read it, so that answers cannot pile up.
    this.#outbox.urgent(message, () => this.#unanswered--);
  }

  /** Never rejects. */
  async #responseTo(request: SignRequest): Promise<SignResponse> {
    try {
      await this.#ready.promise;
      this.#refuseRevoked();
      const signed = await this.#parts.sign(this.#caller, request, this.#exporter);
      this.#refuseRevoked();
      return { ...signed, id: request.id };
    } catch (caught) {
      const error = toHansaError(caught);
      if (error.code === 'HANSA_INTERNAL' && !this.#isOver) {
        this.#parts.log.error('cannot sign for an agent', {
          agent: this.agent,
          error: error.cause,
        });
      }
      return refuseAll(request, error);
    }
  }

  /** Whoever has the key of a revoked authority must not get SVIDs of the next one. */
  #refuseRevoked(): void {
    if (this.#call.isRevoked === true) throw revoked();
  }

  #sendPing(): Ping {
    if (this.#ping !== undefined) return this.#ping;
    const nonce = Buffer.alloc(8);
    nonce.writeUInt32BE(++this.#pings, 4);
    const { promise: answered, resolve: settle } = Promise.withResolvers<boolean>();
    const ping: Ping = { nonce, answered, settle };
    this.#ping = ping;
    this.#cancel('idle');
    const message = encodeToAgent({ case: 'ping', value: create(PingSchema, { nonce }) });
    // Counts from when it was written: it may wait behind a large message.
    this.#outbox.urgent(message, () => {
      if (this.#ping === ping) this.#awaitPong();
    });
    return ping;
  }

  #awaitPong(): void {
    this.#after('idle', pongWithinMs, () =>
      this.end(
        new HansaError(
          'HANSA_TIMEOUT',
          `The agent did not answer a ping within ${pongWithinMs / 1000} seconds.`,
        ),
      ),
    );
  }

  #ponged(nonce: Buffer): void {
    const ping = this.#ping;
    if (ping === undefined || !ping.nonce.equals(nonce)) throw outOfOrder('a pong');
    this.#ping = undefined;
    ping.settle(true);
    this.#watchIdle(pingAfterMs);
  }

  /** One timer for the stream: it restarts with the remaining time, not with each message. */
  #watchIdle(inMs: number): void {
    this.#after('idle', inMs, () => {
      const leftMs = this.#heardMs + pingAfterMs - this.#parts.clock.monotonic();
      if (leftMs > 0) this.#watchIdle(leftMs);
      else this.#sendPing();
    });
  }

  #after(name: 'idle' | 'acknowledge', delayMs: number, fire: () => void): void {
    this.#cancel(name);
    if (!this.#isOver) this.#timers.set(name, this.#parts.clock.timer(delayMs, fire));
  }

  #cancel(name: 'idle' | 'acknowledge'): void {
    this.#timers.get(name)?.cancel();
    this.#timers.delete(name);
  }
}

/** The agent can still prove its identity with its registered key. */
function revoked(): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    'The site revoked the authority that signed this SVID. Renew it, and connect again.',
  );
}

function outOfOrder(what: string): HansaError {
  return new ProtocolError(`it sent ${what} that the site did not expect`);
}

function refuseAll({ id, x509, jwt }: SignRequest, { code, message }: HansaError): SignResponse {
  const refusal = create(RefusalSchema, { code, message });
  return create(SignResponseSchema, {
    id,
    x509: x509.map(() => create(X509ResultSchema, { refusal })),
    jwt: jwt.map(() => create(JwtResultSchema, { refusal })),
  });
}
