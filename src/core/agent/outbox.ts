// The messages to one agent. One writer sends them as fast as the agent reads. Answers and pings go
// first; the messages of a state are made one at a time, so a slow agent holds little memory.

import type { AgentCall } from '../plane/stream.ts';
import type { StateMessage } from './state-messages.ts';

export class Outbox {
  readonly #call: Pick<AgentCall, 'write' | 'signal'>;
  readonly #sent: (bytes: number) => void;
  /** Bounded by its users: one ping, one pong, and the unanswered signing requests. */
  readonly #urgent: { readonly message: Uint8Array; readonly written: () => void }[] = [];
  #state: Iterator<StateMessage, void> | undefined;
  #stateWritten: () => void = () => undefined;
  #pong: Uint8Array | undefined;
  #wake: (() => void) | undefined;
  #isStopped = false;

  /** `sent` is told the size of each message. */
  constructor(call: Pick<AgentCall, 'write' | 'signal'>, sent: (bytes: number) => void) {
    this.#call = call;
    this.#sent = sent;
  }

  /** `written` is called when the connection has accepted the message. */
  urgent(message: Uint8Array, written: () => void = () => undefined): void {
    this.#urgent.push({ message, written });
    this.#wake?.();
  }

  /** A later pong replaces one that waits: an agent that does not read gets no queue of answers. */
  pong(message: Uint8Array): void {
    this.#pong = message;
    this.#wake?.();
  }

  /** The messages of a step. The one before must be sent completely. `written` is called after the last. */
  state(messages: Iterator<StateMessage, void>, written: () => void): void {
    this.#state = messages;
    this.#stateWritten = written;
    this.#wake?.();
  }

  /** Whether messages of a step have not been written. */
  get isSendingState(): boolean {
    return this.#state !== undefined;
  }

  /** Nothing is written after the status of the call. */
  stop(): void {
    this.#isStopped = true;
    this.#wake?.();
  }

  /** Writes until `stop`. Rejects when the call ends. */
  async run(): Promise<void> {
    const { signal } = this.#call;
    signal.addEventListener('abort', () => this.#wake?.(), { once: true });
    while (!this.#isStopped) {
      signal.throwIfAborted();
      const next = this.#next();
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      await this.#call.write(next.message);
      this.#sent(next.message.byteLength);
      next.written();
    }
  }

  #next(): { readonly message: Uint8Array; readonly written: () => void } | undefined {
    const urgent = this.#urgent.shift();
    if (urgent !== undefined) return urgent;
    const pong = this.#pong;
    this.#pong = undefined;
    if (pong !== undefined) return { message: pong, written: () => undefined };
    return this.#nextOfState();
  }

  #nextOfState() {
    const next = this.#state?.next();
    if (next?.done !== false) return undefined;
    if (!next.value.isLast) return { message: next.value.message, written: () => undefined };
    this.#state = undefined;
    return { message: next.value.message, written: this.#stateWritten };
  }
}
