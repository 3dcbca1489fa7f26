// core/rpc: what both ends of gRPC over HTTP/2 need where grpc-js cannot be used, because it shows no
// TLS exporter: frames, statuses and deadlines, as gRPC's "PROTOCOL-HTTP2" has them. No sockets here, and nothing that
// knows a method.
//
// This file: messages in their frames (Length-Prefixed-Message): a byte that tells whether the
// message is compressed, its length in four bytes, and the message.

import { HansaError } from '../errors/error.ts';

const headBytes = 5;

/** One message, ready to be sent. */
export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(headBytes + message.byteLength);
  frame[0] = 0;
  frame.writeUInt32BE(message.byteLength, 1);
  frame.set(message, headBytes);
  return frame;
}

/**
 * Takes bytes as they come, in linear time, and gives messages as they are whole. Holds at most one
 * message and what came with it; a message that is too large is refused by its head, before its body is waited for.
 */
export class FrameReader {
  readonly #maxMessageBytes: number;
  /** Grows by doubling: whoever sends byte by byte must not have all of it copied for each. */
  #room: Buffer = Buffer.alloc(0);
  /** What of it was not taken yet. */
  #start = 0;
  #end = 0;

  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  push(chunk: Uint8Array): void {
    const held = this.#end - this.#start;
    const needed = held + chunk.byteLength;
    if (needed > this.#room.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#room.length));
      this.#room.copy(larger, 0, this.#start, this.#end);
      this.#room = larger;
    } else if (this.#start > 0) {
      this.#room.copyWithin(0, this.#start, this.#end);
    }
    this.#room.set(chunk, held);
    this.#start = 0;
    this.#end = needed;
  }

  /**
   * The next message, or undefined where more bytes are needed. Throws HANSA_TOO_LARGE, and
   * HANSA_BAD_REQUEST for what is compressed or no frame.
   */
  take(): Buffer | undefined {
    const held = this.#room.subarray(this.#start, this.#end);
    const flag = held[0];
    if (flag === undefined) return undefined;
    if (flag === 1) {
      throw new HansaError('HANSA_BAD_REQUEST', 'Compressed messages are not accepted.');
    }
    if (flag !== 0) {
      throw new HansaError('HANSA_BAD_REQUEST', 'This is not a frame of gRPC.');
    }
    if (held.length < headBytes) return undefined;
    const length = held.readUInt32BE(1);
    if (length > this.#maxMessageBytes) {
      throw new HansaError(
        'HANSA_TOO_LARGE',
        `A message of ${length} bytes is too large: ${this.#maxMessageBytes} are accepted.`,
      );
    }
    const end = headBytes + length;
    if (held.length < end) return undefined;
    // A copy: the room is used again.
    const message = Buffer.from(held.subarray(headBytes, end));
    this.#start += end;
    return message;
  }

  /** Throws HANSA_BAD_REQUEST where the stream ended within a message. */
  finish(): void {
    if (this.#end > this.#start) {
      throw new HansaError('HANSA_BAD_REQUEST', 'The stream ended in the middle of a message.');
    }
  }
}
