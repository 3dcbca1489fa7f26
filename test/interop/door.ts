// A TCP address that leads to a port on loopback, and can be shut. Clients that get its address can be cut off
// from a server that other clients still reach.

import { connect, createServer, type Server, type Socket } from 'node:net';

export class Door {
  readonly #server: Server;
  readonly #outside = new Set<Socket>();
  #state: 'open' | 'cut' | 'held' = 'open';
  /** In the order in which clients sent them. */
  readonly #waiting: (() => void)[] = [];
  #heldBytes = 0;

  private constructor(portOf: () => number | undefined) {
    this.#server = createServer((outside) => this.#enter(outside, portOf()));
  }

  /** On loopback. While there is no port to lead to, it resets connections. */
  static open(portOf: () => number | undefined): Promise<Door> {
    const door = new Door(portOf);
    return new Promise((resolve, reject) => {
      door.#server.once('error', reject).listen(0, '127.0.0.1', () => resolve(door));
    });
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** Resets all connections, and each new one. */
  cut(): void {
    this.#state = 'cut';
    for (const outside of this.#outside) outside.resetAndDestroy();
  }

  /** From now on, requests wait here, also if their sender goes away. Answers pass. */
  hold(): void {
    this.#state = 'held';
  }

  /** Of requests that wait. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Requests that waited go on. */
  restore(): void {
    this.#state = 'open';
    this.#heldBytes = 0;
    for (const pass of this.#waiting.splice(0)) pass();
  }

  close(): void {
    for (const outside of this.#outside) outside.destroy();
    this.#server.close();
  }

  #enter(outside: Socket, port: number | undefined): void {
    if (this.#state === 'cut' || port === undefined) {
      outside.on('error', () => undefined).resetAndDestroy();
      return;
    }
    const inside = connect(port, '127.0.0.1');
    this.#outside.add(outside);
    outside
      .on('data', (chunk: Buffer) => this.#pass(chunk.length, () => inside.write(chunk)))
      .on('end', () => this.#pass(0, () => inside.end()))
      .on('error', () => undefined)
      .on('close', () => {
        this.#outside.delete(outside);
        // What was sent before still arrives.
        this.#pass(0, () => inside.end());
      });
    inside.on('error', () => outside.destroy()).pipe(outside);
  }

  #pass(bytes: number, pass: () => void): void {
    if (this.#state !== 'held') return pass();
    this.#heldBytes += bytes;
    this.#waiting.push(pass);
  }
}
