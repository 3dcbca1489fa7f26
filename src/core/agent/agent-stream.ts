// One stream of an agent at the site: sends the newest state after each acknowledgement, answers
// signing requests, and pings. Nothing that other replicas need lives here.

import { create } from '@bufbuild/protobuf';
import { PongSchema, type SignRequest, type SignResponse } from '../../../proto/gen/agent_pb.ts';
import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { TokenBuckets } from '../limits/token-buckets.ts';
import type { Log } from '../log/log.ts';
import type { AgentCall } from '../plane/stream.ts';
import type { StreamHoldings } from './agent-holdings.ts';
import type { PresentAgent } from './agent-sessions.ts';
import type { SignForAgent, SigningAgent } from './agent-signer.ts';
import type { ChannelMetrics } from './channel-metrics.ts';
import { type HeldState, kindOfMessage, parseFromAgent, ProtocolError } from './from-agent.ts';
import {
  acknowledgeWithinMs,
  agentExporterBytes,
  agentExporterLabel,
  messageBurst,
  messagesPerSecond,
} from './limits.ts';
import { Outbox } from './outbox.ts';
import { SignAnswers } from './sign-answers.ts';
import {
  type AgentItem,
  type Difference,
  difference,
  hashOfList,
  type HeldItem,
  type StateVersion,
} from './state.ts';
import { encodeToAgent, stateMessages } from './state-messages.ts';
import { StreamPings } from './stream-pings.ts';

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

export class AgentStream {
  readonly agent: string;
  readonly #parts: AgentStreamParts;
  readonly #call: AgentCall;
  readonly #outbox: Outbox;
  readonly #pings: StreamPings;
  readonly #signs: SignAnswers;
  /** Undefined until the stream holds the claim: another process must not speak for the agent. */
  #presence: PresentAgent | undefined;
  #holdings: StreamHoldings | undefined;
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
  #isOver = false;
  #isLost = false;
  #acknowledgeTimer: Timer | undefined;

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
    const outbox = this.#outbox;
    this.#pings = new StreamPings({ clock, outbox, lost: (error) => this.#lost(error) });
    this.#signs = new SignAnswers({
      log: parts.log.with({ agent: this.agent }),
      outbox,
      sign: (request) => this.#sign(request),
    });
    // The callers that wait for them may have ended.
    for (const { promise } of [this.#over, this.#ready]) promise.catch(() => undefined);
  }

  /** Serves the stream until the agent closes it or something ends it. */
  async run(): Promise<void> {
    try {
      await Promise.race([this.#read(), this.#outbox.run(), this.#over.promise]);
    } finally {
      this.#isOver = true;
      this.#outbox.stop();
      this.#pings.stop();
      this.#acknowledgeTimer?.cancel();
      this.#ready.reject(new HansaError('HANSA_UNAVAILABLE', 'The stream has ended.'));
    }
  }

  /** Starts to send states: the claim is held, and the store has reached the agent's revision. */
  begin(held: HeldState | undefined, presence: PresentAgent, holdings?: StreamHoldings): void {
    this.#presence = presence;
    this.#holdings = holdings;
    this.#held = held;
    this.#isReady = true;
    this.#ready.resolve();
    this.changed();
  }

  end(error: HansaError): void {
    this.#over.reject(error);
  }

  /** Whether it ended because the agent did not answer. */
  get isLost(): boolean {
    return this.#isLost;
  }

  #lost(error: HansaError): void {
    this.#isLost = !this.#isOver;
    this.end(error);
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
    const version = { ...now, hash: hashOfList(items) };
    const isEqual = held?.version.hash.equals(version.hash) === true;
    if (this.#isConfirmed && isSame && isEqual) return;
    const step = isEqual ? noDifference : difference(held?.items ?? [], items);
    const isLast = this.#call.isRevoked === true;
    this.#sent = { version, items, whole: held === undefined, isLast };
    this.#holdings?.sends(items, step);
    this.#parts.metrics.sentState(held === undefined ? 'whole' : 'change');
    const messages = stateMessages({ ...step, version, base: held?.version.hash });
    this.#outbox.state(messages, () => this.#awaitAcknowledgement(version));
  }

  /** Counts from the last message: a large state may take long on a slow connection. */
  #awaitAcknowledgement(version: StateVersion): void {
    // The agent may have been faster than the event that the message was written.
    if (this.#sent?.version !== version || this.#isOver) return;
    this.#acknowledgeTimer = this.#parts.clock.timer(acknowledgeWithinMs, () =>
      this.#lost(
        new HansaError(
          'HANSA_TIMEOUT',
          `The agent did not acknowledge a state within ${acknowledgeWithinMs / 1000} seconds.`,
        ),
      ),
    );
  }

  probe(): Promise<boolean> {
    return this.#pings.probe();
  }

  async #read(): Promise<void> {
    for (let next = await this.#call.read(); next !== undefined; next = await this.#call.read()) {
      if (this.#isOver) return;
      this.#pings.heard();
      this.#presence?.seen();
      this.#handle(next);
    }
  }

  /** Never waits: a signing request must not delay a pong. */
  #handle(bytes: Buffer): void {
    const kind = kindOfMessage(bytes);
    if (kind === 'hello') throw outOfOrder('a second hello');
    // Before decoding, which costs the most. The site asks for acknowledgements and pongs.
    if (kind !== 'acknowledge' && kind !== 'pong') this.#spend();
    const message = parseFromAgent(bytes);
    switch (message.kind) {
      case 'hello':
        throw outOfOrder('a second hello');
      case 'acknowledge':
        return this.#acknowledged(message.version, message.refused);
      case 'pong':
        return this.#pings.ponged(message.nonce);
      case 'ping': {
        const value = create(PongSchema, { nonce: message.nonce });
        return this.#outbox.pong(encodeToAgent({ case: 'pong', value }));
      }
      case 'unknown':
        return;
      case 'report':
        return this.#presence?.reported(message.report);
      case 'sign':
        this.#parts.metrics.signRequest();
        return this.#signs.ask(message.request);
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
    this.#acknowledgeTimer?.cancel();
    this.#sent = undefined;
    if (refused === '') {
      this.#holdings?.acknowledged();
      this.#held = { version: sent.version, items: sent.items };
      this.#isConfirmed = true;
      if (sent.isLast) throw revoked();
    } else {
      this.#holdings?.refused();
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

  async #sign(request: SignRequest): Promise<SignResponse> {
    await this.#ready.promise;
    this.#refuseRevoked();
    const signed = await this.#parts.sign(this.#caller, request, this.#exporter);
    this.#refuseRevoked();
    return signed;
  }

  /** A thief with the key of a revoked authority must not get SVIDs of the next one. */
  #refuseRevoked(): void {
    if (this.#call.isRevoked === true) throw revoked();
  }
}

const noDifference: Difference = { put: [], delete: [] };

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
