// A connection of the workload socket that HTTP/2 reads in turns: a few frames, then the connections of
// other users. Without turns, the event loop would read up to 64 KiB of each connection in one go, which
// can be 2,000 calls that their caller resets at once (CVE-2023-44487): a quarter of a second each.

import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { FrameSlices } from './frame-slices.ts';

/** About a millisecond of work if each is a call. A large request has frames of 16 KiB, one for each turn at worst. */
const framesPerTurn = 16;

export interface TurnTaking {
  /** Runs a task in the next turn of the user of the connection. */
  readonly turn: (task: () => void) => void;
  /** Counts what waits for a turn; false where that is too much for the user. */
  readonly hold: (bytes: number) => boolean;
  /** The connection holds too much, and ends now. */
  readonly flooded: () => void;
}

/** Emits `written` each time that the kernel has taken what was written. */
export class TurnTakingSocket extends Duplex {
  readonly #socket: Socket;
  readonly #taking: TurnTaking;
  readonly #slices = new FrameSlices();
  /** What came, and waits for a turn. */
  #waiting: Buffer = Buffer.alloc(0);
  /** What the socket has read beyond that: at most one chunk. */
  #readAhead = 0;
  #isRead = false;
  #isInLine = false;

  constructor(socket: Socket, taking: TurnTaking) {
    super({ readableHighWaterMark: 1 });
    // Each answered stream may wait for the next write.
    this.setMaxListeners(0);
    this.#socket = socket;
    this.#taking = taking;
    socket.on('readable', () => this.#arrived());
    // To end hundreds of calls takes long, so that takes turns too.
    socket.once('close', () => taking.turn(() => this.destroy()));
    // An error closes the socket too.
    this.on('error', () => undefined);
  }

  /** For a connection that holds too much. Frees it at once, because its user is full. */
  endFlood(): void {
    if (this.destroyed) return;
    this.#taking.flooded();
    this.destroy();
  }

  override _read(): void {
    this.#isRead = true;
    this.#next();
  }

  override _write(bytes: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#socket.write(bytes, (error) => {
      done(error);
      this.emit('written');
    });
  }

  override _final(done: () => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#taking.hold(-this.#waiting.length - this.#readAhead);
    this.#waiting = Buffer.alloc(0);
    this.#readAhead = 0;
    this.#socket.destroy();
    done(error);
  }

  #arrived(): void {
    if (this.destroyed) return;
    const more = this.#socket.readableLength - this.#readAhead;
    this.#readAhead += more;
    if (this.#taking.hold(more)) this.#next();
    else this.endFlood();
  }

  #next(): void {
    if (!this.#isRead || this.#isInLine || this.destroyed) return;
    if (this.#waiting.length === 0) {
      const bytes = this.#socket.read() as Buffer | null;
      if (bytes === null) return;
      this.#waiting = bytes;
      this.#readAhead -= bytes.length;
    }
    this.#isInLine = true;
    this.#taking.turn(() => {
      this.#isInLine = false;
      this.#readSlice();
    });
  }

  #readSlice(): void {
    if (this.destroyed) return;
    const length = this.#slices.next(this.#waiting, framesPerTurn);
    const slice = this.#waiting.subarray(0, length);
    this.#waiting = this.#waiting.subarray(length);
    this.#taking.hold(-length);
    this.#isRead = false;
    this.push(slice);
  }
}
