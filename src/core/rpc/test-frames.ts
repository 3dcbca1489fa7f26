// For tests only: HTTP/2 frames as no client library would send them (RFC 9113, RFC 7541).

import type { Duplex } from 'node:stream';

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** RFC 9113 section 6. */
export const frameType = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  continuation: 9,
} as const;
export const endHeaders = 4;
const maxFrameBytes = 16_384;

export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = Buffer.alloc(0),
): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** RFC 7541 section 5.1, for strings: 7 bits, without Huffman coding. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1');
  const length: number[] = [];
  let left = bytes.length;
  if (left < 127) length.push(left);
  else {
    length.push(127);
    for (left -= 127; left >= 128; left = Math.floor(left / 128)) length.push((left % 128) + 128);
    length.push(left);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** Literal fields without indexing (RFC 7541 section 6.2.2). */
export function headerBlock(headers: Readonly<Record<string, string>>): Buffer {
  return Buffer.concat(
    Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]),
  );
}

/** A connection that never acknowledges settings, so that the limits in them never apply. */
export class RawConnection {
  readonly socket: Duplex;
  /** How often each type of frame came. */
  readonly came = new Map<number, number>();
  readonly closed: Promise<void>;
  #nextStream = 1;
  #unread: Buffer = Buffer.alloc(0);

  constructor(socket: Duplex) {
    this.socket = socket;
    this.socket.on('error', () => undefined);
    this.closed = new Promise((resolve) => {
      this.socket.once('close', () => resolve());
    });
    this.socket.on('data', (bytes: Buffer) => this.#read(bytes));
    this.socket.write(Buffer.concat([preface, frame(frameType.settings, 0, 0)]));
  }

  /** Begins a call, and never ends it. */
  call(headers: Readonly<Record<string, string>>): number {
    const stream = this.#nextStream;
    this.#nextStream += 2;
    const block = headerBlock(headers);
    for (let at = 0; at < block.length; at += maxFrameBytes) {
      const flags = at + maxFrameBytes < block.length ? 0 : endHeaders;
      const type = at === 0 ? frameType.headers : frameType.continuation;
      this.socket.write(frame(type, flags, stream, block.subarray(at, at + maxFrameBytes)));
    }
    return stream;
  }

  reset(stream: number): void {
    this.socket.write(frame(frameType.reset, 0, stream, Buffer.from([0, 0, 0, 8])));
  }

  #read(bytes: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, bytes]);
    for (;;) {
      if (this.#unread.length < 9) return;
      const length = 9 + this.#unread.readUIntBE(0, 3);
      if (this.#unread.length < length) return;
      const type = this.#unread[3] ?? 0;
      this.came.set(type, (this.came.get(type) ?? 0) + 1);
      this.#unread = this.#unread.subarray(length);
    }
  }
}
