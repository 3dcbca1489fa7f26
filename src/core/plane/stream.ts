// The contract of gRPC methods that a plane serves: on the federation listener and the admin socket.

import type { ServerHttp2Stream } from 'node:http2';

/** One call of a bidirectional gRPC method. Messages are bytes: what they mean is the plane's. */
export interface PlaneCall {
  readonly address: string | undefined;
  /** RFC 5705, RFC 8446 §7.5: bytes that only the two ends of this very connection can know. */
  exportKeyingMaterial(label: string, length: number): Buffer;
  /** The next message, or undefined where the caller has ended its half. Rejects where the call is over or late. */
  read(): Promise<Buffer | undefined>;
  write(message: Uint8Array): Promise<void>;
  /** Aborted when the caller is gone or the site stops. */
  readonly signal: AbortSignal;
}

/**
 * A bidirectional gRPC method on the federation listener. Returning ends the call with OK; throwing a
 * HansaError ends it with the gRPC status of its code. Messages are bounded and must come in time.
 */
export interface PlaneRpc {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Of one message; a larger one ends the call with RESOURCE_EXHAUSTED. */
  readonly maxMessageBytes: number;
  /** For the call as a whole. */
  readonly withinMs: number;
  handle(call: PlaneCall): Promise<void>;
}

/**
 * A gRPC method on the admin socket, for whoever owns the site: no one else can open it. The plane is
 * given the stream of a POST with this path and does everything from there, also its bounds.
 */
export interface AdminCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  handle(stream: ServerHttp2Stream): void;
}
