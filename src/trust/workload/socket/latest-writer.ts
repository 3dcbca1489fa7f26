// Writes to a stream whose newest message replaces earlier ones. One message is in flight, and at most
// one waits, until a newer one replaces it. So a slow reader holds at most two messages.

/** The part of a gRPC stream that `LatestWriter` uses. It calls `sent` when the message was sent. */
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
