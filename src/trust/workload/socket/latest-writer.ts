// Writes to a stream of which only the newest message matters: one is on its way, at most one
// waits, and a newer one takes its place. So a reader that is slow, or does not read at all, holds
// two messages and no more.

/** The part of a gRPC stream that is needed: calls back when the message went out. */
export interface MessageSink {
  write(message: Uint8Array, sent: () => void): unknown;
}

export class LatestWriter {
  readonly #sink: MessageSink;
  #writing = false;
  #waiting: Uint8Array | undefined;

  constructor(sink: MessageSink) {
    this.#sink = sink;
  }

  send(message: Uint8Array): void {
    if (this.#writing) {
      this.#waiting = message;
      return;
    }
    this.#writing = true;
    this.#sink.write(message, () => {
      this.#writing = false;
      const next = this.#waiting;
      this.#waiting = undefined;
      if (next !== undefined) this.send(next);
    });
  }
}
