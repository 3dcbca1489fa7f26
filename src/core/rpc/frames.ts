// Reads and writes gRPC frames (Length-Prefixed-Message of "PROTOCOL-HTTP2"): one byte that says
// whether the message is compressed, the length of the message in four bytes, and the message. For
// clients, and for listeners where grpc-js cannot be used because it does not expose the TLS
// exporter.

import { HansaError } from '../errors/error.ts';

/** The compression flag and the length. */
export const frameHeadBytes = 5;

/** Writes the head of an uncompressed message to the start of `frame`. */
export function writeFrameHead(frame: Buffer, messageBytes: number): void {
  frame[0] = 0;
  frame.writeUInt32BE(messageBytes, 1);
}

export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeadBytes + message.byteLength);
  writeFrameHead(frame, message.byteLength);
  frame.set(message, frameHeadBytes);
  return frame;
}

const empty = Buffer.alloc(0);

/**
 * Splits a stream of bytes into messages, in linear time. The caller takes all complete messages after
 * each push; the reader then holds less than one message. It rejects a message that is too large by its
 * head, before the body arrives. After an error it holds nothing and repeats the error.
 *
 * A message that arrived in one chunk is a view of that chunk: copy what must outlive the call.
 */
export class FrameReader {
  readonly #maxMessageBytes: number;
  /** The unread bytes, in `#buffer` from `#start` to `#end`. */
  #buffer: Buffer = empty;
  #start = 0;
  #end = 0;
  /** Whether the reader allocated `#buffer` and may write beyond `#end`. Before `#end` it never writes: messages are views. */
  #isOwn = false;
  #error: HansaError | undefined;

  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  push(chunk: Uint8Array): void {
    if (this.#error !== undefined) return;
    const held = this.#end - this.#start;
    if (held === 0) {
      this.#hold(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength), false);
      return;
    }
    if (!this.#isOwn || this.#end + chunk.byteLength > this.#buffer.length) {
      // Twice the bytes held: a caller that sends single bytes does not cause a copy of all for each.
      const larger = Buffer.allocUnsafe(Math.max(held + chunk.byteLength, 2 * held));
      this.#buffer.copy(larger, 0, this.#start, this.#end);
      this.#hold(larger, true);
      this.#end = held;
    }
    this.#buffer.set(chunk, this.#end);
    this.#end += chunk.byteLength;
  }

  /**
   * The next message, or undefined where more bytes are needed. Throws HANSA_TOO_LARGE, and
   * HANSA_BAD_REQUEST for a compressed message and for bytes that are not a frame.
   */
  take(): Buffer | undefined {
    if (this.#error !== undefined) throw this.#error;
    const held = this.#end - this.#start;
    if (held === 0) return undefined;
    const flag = this.#buffer[this.#start];
    if (flag === 1) throw this.#fail('HANSA_BAD_REQUEST', 'Compressed messages are not accepted.');
    if (flag !== 0) throw this.#fail('HANSA_BAD_REQUEST', 'This is not a gRPC frame.');
    if (held < frameHeadBytes) return undefined;
    const length = this.#buffer.readUInt32BE(this.#start + 1);
    if (length > this.#maxMessageBytes) {
      throw this.#fail(
        'HANSA_TOO_LARGE',
        `A message of ${length} bytes is too large: the limit is ${this.#maxMessageBytes}.`,
      );
    }
    if (held < frameHeadBytes + length) return undefined;
    const from = this.#start + frameHeadBytes;
    const message = this.#buffer.subarray(from, from + length);
    this.#start = from + length;
    if (this.#start === this.#end) this.#hold(empty, false);
    return message;
  }

  /** Throws HANSA_BAD_REQUEST where the stream ended within a message. */
  finish(): void {
    if (this.#error !== undefined) throw this.#error;
    if (this.#end > this.#start) {
      throw this.#fail('HANSA_BAD_REQUEST', 'The stream ended in the middle of a message.');
    }
  }

  #hold(buffer: Buffer, isOwn: boolean): void {
    this.#buffer = buffer;
    this.#start = 0;
    this.#end = buffer.length;
    this.#isOwn = isOwn;
  }

  #fail(code: 'HANSA_BAD_REQUEST' | 'HANSA_TOO_LARGE', message: string): HansaError {
    this.#error = new HansaError(code, message);
    this.#hold(empty, false);
    return this.#error;
  }
}
