// One gRPC call on the federation listener, as a handler sees it: messages, timeouts, and repeated authorization.

import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import { readPeer } from '../../core/identity/tls/peer-chain.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { JoinedAgent, LivePeer, Refused } from '../../core/plane/route.ts';
import type { Admitted, FederationCheck } from '../../core/plane/route-access.ts';
import type { AgentCall, PeerCall, PlaneRpc } from '../../core/plane/stream.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import { addressOf } from './source-address.ts';

export interface RpcCallParts
  extends Pick<PlaneRpc, 'path' | 'maxMessageBytes' | 'messageWithinMs' | 'idleMs'> {
  /** As in PlaneRpc. */
  readonly graceMs?: number;
  readonly clock: Clock;
  /** Aborted with the error that the call ends with. */
  readonly over: AbortController;
  readonly svid: () => ValidatedSvid | undefined;
  readonly check: FederationCheck | undefined;
}

/** gRPC sends its status in trailers. Another HTTP status means that the server does not speak gRPC. */
const httpOk = 200;
const contentType = 'application/grpc';

export class RpcCall implements PeerCall, AgentCall, Refused {
  readonly address: string | undefined;
  readonly #parts: RpcCallParts;
  readonly #request: Http2ServerRequest;
  readonly #response: Http2ServerResponse;
  readonly #frames: FrameReader;
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** Pending waits for the caller. The end of the call rejects them. */
  readonly #waiting = new Set<(reason: unknown) => void>();
  #admitted: Admitted | undefined;
  #lastSvid: ValidatedSvid | undefined;
  /** Set when the authority of the SVID was revoked. */
  #graceEnd: { readonly atMs: number; readonly timer: Timer } | undefined;
  #idle: Timer;
  #lastMessageMs: number;

  constructor(request: Http2ServerRequest, response: Http2ServerResponse, parts: RpcCallParts) {
    this.#parts = parts;
    this.#request = request;
    this.#response = response;
    this.#frames = new FrameReader(parts.maxMessageBytes);
    // Reads on demand, so that HTTP/2 flow control limits the caller.
    this.#chunks = (request as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
    // One listener for all waits, because adding a listener is linear in their number.
    this.signal.addEventListener('abort', () => this.#interrupt(), { once: true });
    this.address = addressOf(request);
    this.#lastMessageMs = parts.clock.monotonic();
    this.#idle = this.#watchIdle(parts.idleMs);
  }

  get signal(): AbortSignal {
    return this.#parts.over.signal;
  }

  get path(): string {
    return this.#parts.path;
  }

  get svid(): ValidatedSvid | undefined {
    const svid = this.#parts.svid();
    if (svid !== undefined) this.#lastSvid = svid;
    return svid ?? this.#revokedSvid();
  }

  get isRevoked(): boolean {
    // The authorities may have changed since the last check.
    void this.svid;
    return this.#graceEnd !== undefined;
  }

  /** The last valid SVID of an open call, during the grace after its authority was revoked. */
  #revokedSvid(): ValidatedSvid | undefined {
    const { clock, graceMs = 0 } = this.#parts;
    const last = this.#lastSvid;
    if (graceMs === 0 || !this.wasAdmitted || last === undefined) return undefined;
    if (clock.now() > last.notAfterMs) return undefined;
    this.#graceEnd ??= {
      atMs: clock.monotonic() + graceMs,
      timer: clock.timer(graceMs, () => this.judge()),
    };
    return clock.monotonic() < this.#graceEnd.atMs ? last : undefined;
  }

  get peerChain(): readonly Certificate[] {
    return readPeer(this.#request.socket as unknown as TLSSocket).chain;
  }

  /** Only handlers of methods that allow peers see it. They run after the check. */
  get peer(): LivePeer {
    return this.#admitted?.peer as LivePeer;
  }

  get agent(): JoinedAgent {
    return this.#admitted?.agent as JoinedAgent;
  }

  get wasAdmitted(): boolean {
    return this.#admitted !== undefined;
  }

  /** Throws if the caller may not call, or no longer. */
  authorize(): void {
    const { check } = this.#parts;
    if (check !== undefined) this.#admitted = check(this);
  }

  /** Ends the call if the caller is no longer authorized. */
  judge(): void {
    if (this.signal.aborted) return;
    try {
      this.authorize();
    } catch (error) {
      this.end(toHansaError(error));
    }
  }

  end(error: HansaError): void {
    this.#parts.over.abort(error);
  }

  /** The call is over. */
  stop(): void {
    this.#idle.cancel();
    this.#graceEnd?.timer.cancel();
  }

  exportKeyingMaterial(label: string, length: number): Buffer {
    const socket = this.#request.stream.session?.socket as TLSSocket | undefined;
    // Before TLS 1.3, an attacker can make two connections with the same exporter (RFC 7627 §1).
    if (socket?.getProtocol() !== 'TLSv1.3') {
      throw new HansaError('HANSA_BAD_REQUEST', 'This method needs a connection with TLS 1.3.');
    }
    return socket.exportKeyingMaterial(length, label, Buffer.alloc(0));
  }

  async read(): Promise<Buffer | undefined> {
    this.signal.throwIfAborted();
    let message = this.#frames.take();
    if (message === undefined) {
      const late = this.#lateAfter('The next message of the caller did not arrive in time.');
      try {
        while (message === undefined) {
          const next = await this.#unlessOver(this.#next());
          this.signal.throwIfAborted();
          if (next.done === true) {
            this.#frames.finish();
            return undefined;
          }
          this.#frames.push(next.value);
          message = this.#frames.take();
        }
      } finally {
        late.cancel();
      }
    }
    this.#lastMessageMs = this.#parts.clock.monotonic();
    // The caller may have lost its authorization since its last message.
    this.authorize();
    return message;
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    try {
      return await this.#chunks.next();
    } catch (cause) {
      throw new HansaError('HANSA_BAD_REQUEST', 'The stream ended early.', { cause });
    }
  }

  async write(message: Uint8Array): Promise<void> {
    this.signal.throwIfAborted();
    this.authorize();
    beginAnswer(this.#response);
    const hasRoom = this.#response.write(encodeFrame(message));
    this.#lastMessageMs = this.#parts.clock.monotonic();
    if (hasRoom) return;
    const drained = new Promise<void>((resolve) => {
      this.#response.once('drain', resolve);
    });
    const late = this.#lateAfter('The caller did not read its messages in time.');
    try {
      await this.#unlessOver(drained);
    } finally {
      late.cancel();
    }
  }

  #lateAfter(message: string): Timer {
    return this.#parts.clock.timer(this.#parts.messageWithinMs, () =>
      this.end(new HansaError('HANSA_TIMEOUT', message)),
    );
  }

  /** One timer for the whole call. It restarts with the remaining time, not with each message. */
  #watchIdle(inMs: number): Timer {
    const { clock, idleMs } = this.#parts;
    return clock.timer(inMs, () => {
      const leftMs = this.#lastMessageMs + idleMs - clock.monotonic();
      if (leftMs > 0) this.#idle = this.#watchIdle(leftMs);
      else {
        const message = `No message was sent for ${idleMs / 1000} seconds.`;
        this.end(new HansaError('HANSA_TIMEOUT', message));
      }
    });
  }

  async #unlessOver<T>(work: Promise<T>): Promise<T> {
    const { promise: over, reject } = Promise.withResolvers<never>();
    this.#waiting.add(reject);
    try {
      return await Promise.race([work, over]);
    } finally {
      this.#waiting.delete(reject);
    }
  }

  #interrupt(): void {
    for (const reject of this.#waiting) reject(this.signal.reason);
    this.#waiting.clear();
  }
}

export function beginAnswer(response: Http2ServerResponse): void {
  if (response.headersSent) return;
  response.writeHead(httpOk, {
    'content-type': contentType,
    'grpc-accept-encoding': 'identity',
  });
}
