// The transport interface between simulated nodes: requests with one response each, and streams of
// messages. The simulated network implements it without sockets.

import type { Json } from '../../src/api/object.ts';

/** Messages in order, each once, until one side closes (`receive` gives undefined) or it breaks (rejects). */
export interface MessageStream {
  send(message: Json): void;
  receive(): Promise<Json | undefined>;
  close(): void;
}

export interface Handlers {
  /** Answers, or throws a HansaError that the caller gets with its code. May be called twice for one request. */
  request?(from: string, path: string, body: Json): Promise<Json>;
  stream?(from: string, path: string, stream: MessageStream): void;
}

export interface NodeTransport {
  /**
   * Rejects with HANSA_UNREACHABLE where no answer came in time: then nobody knows whether the
   * request was carried out.
   */
  request(to: string, path: string, body: Json): Promise<Json>;
  open(to: string, path: string): Promise<MessageStream>;
  serve(handlers: Handlers): void;
}
