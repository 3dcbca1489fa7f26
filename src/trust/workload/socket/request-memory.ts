// Limits the memory of incomplete requests. gRPC keeps each DATA frame until its message is complete, and
// each message until the request is complete. In frames of one byte, a message takes hundreds of times
// its size, at little cost for the sender. So this file counts frames before gRPC handles the call.

import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import { frameHeadBytes } from '../../../core/rpc/frames.ts';

/** What gRPC keeps for a piece beside its bytes: an object of Node's that points to them. */
const pieceBytes = 256;
/** A message may come in so many pieces, and in one more for each of the bytes below. Usual frames have 16 KiB. */
const fewPieces = 32;
const usualPieceBytes = 4096;

/** What one call has brought. */
export class RequestMemory {
  #pieces = 0;
  #size = 0;
  #headLeft = frameHeadBytes;
  #bodyLeft = 0;
  /** The cost of the message that is not whole, and of those that became so last. */
  #partial = 0;
  #whole = 0;

  get held(): number {
    return this.#partial + this.#whole;
  }

  /** Whether there are more pieces than a normal client sends for a message of that size. */
  get areTooMany(): boolean {
    return this.#pieces > fewPieces + this.#size / usualPieceBytes;
  }

  add(piece: Uint8Array): void {
    if (this.#headLeft < frameHeadBytes) this.#count();
    let at = 0;
    let ended = 0;
    while (at < piece.length) {
      if (this.#headLeft === frameHeadBytes) {
        this.#pieces = 0;
        this.#size = 0;
        this.#count();
        this.#headLeft--;
        at++;
      } else if (this.#headLeft > 0) {
        this.#size = this.#size * 256 + (piece[at] ?? 0);
        this.#headLeft--;
        at++;
        this.#bodyLeft = this.#size;
      } else {
        const length = Math.min(piece.length - at, this.#bodyLeft);
        at += length;
        this.#bodyLeft -= length;
        this.#partial += length;
      }
      if (this.#headLeft > 0 || this.#bodyLeft > 0) continue;
      this.#headLeft = frameHeadBytes;
      // A piece is not read before the messages of the last one are: those of one piece wait together.
      if (ended++ === 0) this.#whole = 0;
      this.#whole += this.#partial;
      this.#partial = 0;
    }
  }

  #count(): void {
    this.#pieces++;
    this.#partial += pieceBytes;
  }
}

/** Who pays for what is held of a connection's requests. */
export interface MemoryAccount {
  /** Adds what may be negative; false where it is too much. */
  hold(bytes: number): boolean;
  /** Ends the connection. */
  end(): void;
}

/** Published by Node for each stream of any server, before that server hears of it. */
const created = channel('http2.server.stream.created').name;

/** Watches the connections of one server. */
export class RequestMemoryMeter {
  /** Marks the connections of this server. */
  readonly #account = Symbol('account');

  constructor() {
    subscribe(created, this.#onStream);
  }

  /** To be called before the server has the connection. */
  add(connection: Duplex, account: MemoryAccount): void {
    Object.defineProperty(connection, this.#account, { value: account });
  }

  stop(): void {
    unsubscribe(created, this.#onStream);
  }

  readonly #onStream = (message: unknown): void => {
    const { stream } = message as { readonly stream: ServerHttp2Stream };
    const socket = stream.session?.socket as { readonly [key: symbol]: unknown } | undefined;
    const account = socket?.[this.#account] as MemoryAccount | undefined;
    if (account !== undefined) watch(stream, account);
  };
}

function watch(stream: ServerHttp2Stream, account: MemoryAccount): void {
  const pieces = new RequestMemory();
  let held = 0;
  const settle = (now: number): boolean => {
    const more = now - held;
    held = now;
    return account.hold(more);
  };
  const read = (piece: Buffer): void => {
    pieces.add(piece);
    if (!settle(pieces.held) || pieces.areTooMany) account.end();
  };
  // To listen for pieces sets them flowing: not before gRPC does.
  const asGrpcBegins = (event: string | symbol): void => {
    if (event !== 'data') return;
    stream.off('newListener', asGrpcBegins);
    stream.on('data', read);
  };
  stream.on('newListener', asGrpcBegins);
  const over = (): void => {
    stream.off('data', read);
    settle(0);
  };
  stream.once('end', over);
  stream.once('close', over);
}
