// What the agent does on one stream to its site: hello, states, pings and reports.

import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { FromAgentSchema, type SignResponse } from '../../../proto/gen/agent_pb.ts';
import type { Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import type { AgentLinkParts, SiteStream } from './agent-link.ts';
import type { StateStep } from './held-state.ts';
import {
  maxFromAgentBytes,
  maxHelloItems,
  maxHostBytes,
  maxProblemBytes,
  maxProblems,
  maxVersionBytes,
  pongWithinMs,
} from './limits.ts';
import type { StateVersion } from './state.ts';
import { readToAgent, StateAssembly } from './to-agent.ts';

/** Less than for the site, so that one of the two ends pings. */
const silenceMs = 15_000;
/** A site that sends no state within this time is not well. */
const stateWithinMs = 60_000;
const reportEveryMs = 5_000;
/** The site answers a refusal with a whole state. If that is refused too, waiting is better. */
const mostRefusals = 3;
/** The agent writes little, so a larger backlog means that the site does not read. */
const mostBacklogBytes = 8 * 1024 * 1024;
const nonceBytes = 8;

type Outgoing = NonNullable<
  Exclude<MessageInitShape<typeof FromAgentSchema>, { $typeName: string }>['message']
>;

export class OpenStream {
  readonly #parts: AgentLinkParts;
  readonly #stream: SiteStream;
  readonly #synced: () => void;
  readonly #assembly = new StateAssembly();
  readonly #timers = new Map<'silence' | 'state' | 'report' | 'drain', Timer>();
  #isSynced = false;
  #isOver = false;
  #refusals = 0;
  #contactMs: number | undefined;
  /** The same in monotonic time. */
  #contactAt: number | undefined;
  /** Monotonic. */
  #heardAt: number;
  #pinged: Buffer | undefined;
  #reported = '';
  #failure: HansaError | undefined;

  constructor(parts: AgentLinkParts, stream: SiteStream, synced: () => void) {
    this.#parts = parts;
    this.#stream = stream;
    this.#synced = synced;
    this.#heardAt = parts.clock.monotonic();
    this.#after('state', stateWithinMs, () => this.#fail('it sent no state'));
    this.#listen();
  }

  get exporter(): Buffer {
    return this.#stream.exporter;
  }

  /** Wall time of the last message while the agent had accepted the state; undefined before the first one. */
  get contactMs(): number | undefined {
    return this.#contactMs;
  }

  /** The same in monotonic time. */
  get contactAt(): number | undefined {
    return this.#contactAt;
  }

  /** With what the agent holds, unless that is too much for one message: the site then sends a whole state. */
  hello(session: Uint8Array): void {
    const { version, host, state } = this.#parts;
    const hello = {
      version: cut(version, maxVersionBytes),
      host: cut(host, maxHostBytes),
      session,
    };
    let bytes = encode({ case: 'hello', value: hello });
    if (state.version !== undefined && state.size <= maxHelloItems) {
      const items = [...state.items].map(({ section, collection, name, digest }) => ({
        name: { section, collection, name },
        digest,
      }));
      const held = onWire(state.version);
      const full = encode({ case: 'hello', value: { ...hello, held, items } });
      if (full.byteLength <= maxFromAgentBytes) bytes = full;
    }
    this.#write(bytes);
  }

  /** Until the stream ends, with the reason. */
  async serve(signed: (response: SignResponse) => void): Promise<never> {
    for (;;) {
      let bytes: Buffer;
      try {
        bytes = await this.#stream.read();
      } catch (error) {
        throw this.#failure ?? error;
      }
      this.#heardAt = this.#parts.clock.monotonic();
      if (this.#isSynced) this.#contact();
      const message = readToAgent(bytes);
      switch (message.case) {
        case 'state': {
          const step = this.#assembly.add(message.part, bytes.byteLength);
          if (step !== undefined) await this.#take(step);
          break;
        }
        case 'signed':
          signed(message.response);
          break;
        case 'ping':
          this.send({ case: 'pong', value: { nonce: message.nonce } });
          break;
        case 'pong':
          if (this.#pinged?.equals(message.nonce) === true) this.#pinged = undefined;
          break;
        case 'unknown':
          break;
      }
    }
  }

  send(message: Outgoing): void {
    this.#write(encode(message));
  }

  #write(bytes: Uint8Array): void {
    if (this.#isOver) return;
    this.#stream.write(bytes);
    if (this.#stream.backlogBytes > mostBacklogBytes) this.#fail('it does not read');
  }

  /** Ends the stream after this time. */
  leave(afterMs: number): void {
    this.#after('drain', afterMs, () => this.#stream.close());
  }

  ping(): void {
    if (this.#pinged !== undefined || this.#isOver) return;
    // It only tells one ping from the next.
    const nonce = Buffer.alloc(nonceBytes);
    nonce.writeDoubleBE(this.#parts.clock.monotonic());
    this.#pinged = nonce;
    this.send({ case: 'ping', value: { nonce } });
    this.#after('silence', pongWithinMs, () => {
      if (this.#pinged === nonce) this.#fail('it did not answer a ping');
      else this.#listen();
    });
  }

  end(): void {
    this.#isOver = true;
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }

  async #take(step: StateStep): Promise<void> {
    const { state, problemOf, apply, keep, log } = this.#parts;
    const next = problemOf(step.put) ?? state.next(step);
    if (typeof next === 'string') {
      this.#isSynced = false;
      log.error('refused a state of the site', { reason: next, revision: step.version.revision });
      this.send({ case: 'acknowledge', value: { version: onWire(step.version), refused: next } });
      this.#refusals++;
      if (this.#refusals >= mostRefusals) {
        this.#fail(`this agent refused its states, because ${next}`);
      }
      return;
    }
    await apply(next);
    state.adopt(next);
    this.#refusals = 0;
    // The site sends the next state after this, perhaps a revocation: it must not wait for the disk.
    this.send({ case: 'acknowledge', value: { version: onWire(step.version) } });
    void keep();
    if (this.#isSynced || this.#isOver) return;
    this.#isSynced = true;
    this.#contact();
    this.#timers.get('state')?.cancel();
    this.#report();
    this.#synced();
  }

  #contact(): void {
    this.#contactMs = this.#parts.clock.now();
    this.#contactAt = this.#parts.clock.monotonic();
  }

  /** Pings after silence. */
  #listen(): void {
    const { clock } = this.#parts;
    const quietMs = clock.monotonic() - this.#heardAt;
    if (quietMs >= silenceMs) this.ping();
    // Whole milliseconds: a smaller remainder could be lost when it is added to the time.
    else this.#after('silence', Math.ceil(silenceMs - quietMs), () => this.#listen());
  }

  #report(): void {
    const { report } = this.#parts;
    const now = report();
    const text = JSON.stringify(now);
    if (text !== this.#reported) {
      this.#reported = text;
      const problems = now.problems.slice(0, maxProblems).map((one) => cut(one, maxProblemBytes));
      this.send({ case: 'report', value: { ...now, problems } });
    }
    this.#after('report', reportEveryMs, () => this.#report());
  }

  #fail(why: string): void {
    this.#failure ??= new HansaError('HANSA_UNAVAILABLE', `Disconnected from the site: ${why}.`);
    this.#stream.close();
  }

  #after(what: 'silence' | 'state' | 'report' | 'drain', delayMs: number, then: () => void): void {
    this.#timers.get(what)?.cancel();
    if (this.#isOver) return;
    this.#timers.set(what, this.#parts.clock.timer(delayMs, then));
  }
}

function encode(message: Outgoing): Uint8Array {
  return toBinary(FromAgentSchema, create(FromAgentSchema, { message }));
}

function onWire({ incarnation, revision, epoch, hash }: StateVersion) {
  return { incarnation, revision: BigInt(revision), epoch: BigInt(epoch), hash };
}

/** The start of a text that people read, in at most so many bytes of UTF-8. */
function cut(text: string, mostBytes: number): string {
  // A character of UTF-16 has at most three bytes.
  return Buffer.byteLength(text) <= mostBytes ? text : text.slice(0, Math.floor(mostBytes / 3));
}
