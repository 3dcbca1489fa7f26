// Limits the memory of incomplete requests. gRPC keeps each DATA frame until its message is complete, and
// each message until the request is complete. In frames of one byte, a message takes hundreds of times
// its size, at little cost for the sender. So this file counts frames.

import type { ServerHttp2Stream } from 'node:http2';
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

/** To be called when gRPC has the stream: to listen for pieces would set them flowing. */
export function watchRequest(stream: ServerHttp2Stream, account: MemoryAccount): void {
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
  stream.on('data', read);
  const over = (): void => {
    stream.off('data', read);
    settle(0);
  };
  stream.once('end', over);
  stream.once('close', over);
}
