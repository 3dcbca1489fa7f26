// A TCP address that leads to a port on loopback, and can be shut. Clients that get its address can be cut off
// from a server that other clients still reach.

import { connect, createServer, type Server, type Socket } from 'node:net';

export class Door {
  readonly #server: Server;
  readonly #outside = new Set<Socket>();
  #state: 'open' | 'cut' | 'held' = 'open';

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

  /** From now on, requests wait here. Answers pass. */
  hold(): void {
    this.#state = 'held';
    for (const outside of this.#outside) outside.pause();
  }

  /** Requests that waited go on. */
  restore(): void {
    this.#state = 'open';
    for (const outside of this.#outside) outside.resume();
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
      .on('data', (chunk) => inside.write(chunk))
      .on('end', () => inside.end())
      .on('error', () => undefined)
      .on('close', () => {
        this.#outside.delete(outside);
        // What was sent before still arrives.
        inside.end();
      });
    inside.on('error', () => outside.destroy()).pipe(outside);
    if (this.#state === 'held') outside.pause();
  }
}
