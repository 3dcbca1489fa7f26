// A network in one process: messages are delayed, reordered, lost, duplicated, and stopped by
// partitions, in both directions or in one.

import type { Json } from '../../src/api/object.ts';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { type CoreErrorCode, HansaError, toHansaError } from '../../src/core/errors/error.ts';
import type { Process, Simulation } from './simulation.ts';
import type { Handlers, MessageStream, NodeTransport } from './node-transport.ts';

export interface NetworkFaults {
  readonly shortestDelayMs: number;
  readonly longestDelayMs: number;
  /** Of a single message. */
  readonly loss: number;
  readonly duplication: number;
  /** After which a request without an answer is given up, and a stream without a peer is broken. */
  readonly timeoutMs: number;
}

const defaults: NetworkFaults = {
  shortestDelayMs: 1,
  longestDelayMs: 40,
  loss: 0.02,
  duplication: 0.02,
  timeoutMs: 1000,
};

export class Network {
  readonly #simulation: Simulation;
  readonly #random: SeededRandom;
  readonly #endpoints = new Map<string, Endpoint>();
  /** `from|to`: what the first node sends does not reach the second one. */
  readonly #cut = new Set<string>();
  faults: NetworkFaults;

  constructor(simulation: Simulation, faults: Partial<NetworkFaults>) {
    this.#simulation = simulation;
    this.#random = simulation.random.fork('network');
    this.faults = { ...defaults, ...faults };
  }

  attach(process: Process): NodeTransport {
    const endpoint = new Endpoint(this, process);
    this.#endpoints.set(process.node, endpoint);
    return endpoint;
  }

  detach(process: Process): void {
    const endpoint = this.#endpoints.get(process.node);
    if (endpoint?.process !== process) return;
    this.#endpoints.delete(process.node);
    endpoint.die();
  }

  endpoint(node: string): Endpoint | undefined {
    return this.#endpoints.get(node);
  }

  /** Parts every node of one side from every node of the other. */
  partition(one: readonly string[], other: readonly string[]): void {
    this.#simulation.event(`partition ${one.join(',')} | ${other.join(',')}`);
    for (const a of one) for (const b of other) this.#cut.add(way(a, b)).add(way(b, a));
  }

  /** Loses what one node sends to the other. The other direction works. */
  cut(from: string, to: string): void {
    this.#simulation.event(`cut ${from}→${to}`);
    this.#cut.add(way(from, to));
  }

  heal(): void {
    if (this.#cut.size === 0) return;
    this.#simulation.event('partitions heal');
    this.#cut.clear();
  }

  reaches(from: string, to: string): boolean {
    return !this.#cut.has(way(from, to));
  }

  delayMs(): number {
    const { shortestDelayMs, longestDelayMs } = this.faults;
    return shortestDelayMs + this.#random.unit() * (longestDelayMs - shortestDelayMs);
  }

  /** A datagram: it arrives at `process` of that node later, or never, or twice. */
  send(from: string, to: string, what: string, arrive: () => void): void {
    const copies = this.#random.chance(this.faults.duplication) ? 2 : 1;
    for (let copy = 0; copy < copies; copy++) {
      if (this.#random.chance(this.faults.loss)) {
        this.#simulation.event(`lost ${from}→${to} ${what}`);
        continue;
      }
      this.#simulation.clock.timer(this.delayMs(), () => {
        if (this.reaches(from, to)) arrive();
      });
    }
  }

  event(event: string): void {
    this.#simulation.event(event);
  }

  timer(delayMs: number, fire: () => void): void {
    this.#simulation.clock.timer(delayMs, fire);
  }
}

interface Pending {
  readonly resolve: (body: Json) => void;
  readonly reject: (error: HansaError) => void;
}

type Answer = { readonly body: Json } | { readonly code: CoreErrorCode; readonly message: string };

/** The network of one life of a node. */
class Endpoint implements NodeTransport {
  readonly process: Process;
  readonly #network: Network;
  readonly #pending = new Map<number, Pending>();
  readonly #streams = new Set<StreamEnd>();
  handlers: Handlers = {};
  #requests = 0;

  constructor(network: Network, process: Process) {
    this.#network = network;
    this.process = process;
  }

  serve(handlers: Handlers): void {
    this.handlers = handlers;
  }

  request(to: string, path: string, body: Json): Promise<Json> {
    const id = ++this.#requests;
    const from = this.process.node;
    const sent = structuredClone(body);
    return new Promise((resolve, reject) => {
      const timer = this.process.clock.timer(this.#network.faults.timeoutMs, () => {
        this.#pending.delete(id);
        reject(unreachable(`${to} did not answer ${path} in time`));
      });
      this.#pending.set(id, {
        resolve: (answer) => {
          timer.cancel();
          resolve(answer);
        },
        reject: (error) => {
          timer.cancel();
          reject(error);
        },
      });
      this.#network.send(from, to, path, () =>
        this.#network.endpoint(to)?.handle(from, path, sent, (answer) => {
          this.#network.send(to, from, `answer to ${path}`, () => this.#answered(id, answer));
        }),
      );
    });
  }

  /** Runs the handler when the process is not paused. */
  handle(from: string, path: string, body: Json, answer: (answer: Answer) => void): void {
    this.process.clock.timer(0, () => {
      this.handlers.request?.(from, path, structuredClone(body)).then(
        (result) => {
          if (this.process.alive) answer({ body: structuredClone(result) });
          return undefined;
        },
        (error: unknown) => {
          const { general: code, message } = toHansaError(error);
          if (this.process.alive) answer({ code, message });
        },
      );
    });
  }

  #answered(id: number, answer: Answer): void {
    if (!this.process.alive) return;
    this.process.clock.timer(0, () => {
      const pending = this.#pending.get(id);
      this.#pending.delete(id);
      if ('code' in answer) pending?.reject(new HansaError(answer.code, answer.message));
      else pending?.resolve(answer.body);
    });
  }

  open(to: string, path: string): Promise<MessageStream> {
    const from = this.process.node;
    return new Promise((resolve, reject) => {
      const timer = this.process.clock.timer(this.#network.faults.timeoutMs, () =>
        reject(unreachable(`${to} did not answer ${path} in time`)),
      );
      this.#network.timer(this.#network.delayMs(), () => {
        const remote = this.#network.endpoint(to);
        if (remote?.handlers.stream === undefined || !this.#network.reaches(from, to)) return;
        const here = new StreamEnd(this.#network, this, from, to);
        const there = new StreamEnd(this.#network, remote, to, from);
        here.peer = there;
        there.peer = here;
        remote.handlers.stream(from, path, there);
        this.#network.timer(this.#network.delayMs(), () => {
          if (!this.process.alive) return;
          timer.cancel();
          resolve(here);
        });
      });
    });
  }

  track(stream: StreamEnd): void {
    this.#streams.add(stream);
  }

  untrack(stream: StreamEnd): void {
    this.#streams.delete(stream);
  }

  /** Peers notice by and by. */
  die(): void {
    for (const stream of this.#streams) stream.peerDied();
  }
}

/** One end of a stream: ordered and whole, until it breaks. */
class StreamEnd implements MessageStream {
  peer: StreamEnd | undefined;
  readonly #network: Network;
  readonly #endpoint: Endpoint;
  readonly #from: string;
  readonly #to: string;
  readonly #received: (Json | undefined)[] = [];
  readonly #waiting: {
    resolve: (message: Json | undefined) => void;
    reject: (e: Error) => void;
  }[] = [];
  #lastArrivalMs = 0;
  #broken: HansaError | undefined;
  #closed = false;

  constructor(network: Network, endpoint: Endpoint, from: string, to: string) {
    this.#network = network;
    this.#endpoint = endpoint;
    this.#from = from;
    this.#to = to;
    endpoint.track(this);
  }

  send(message: Json): void {
    if (this.#closed || this.#broken !== undefined) return;
    this.#transmit(structuredClone(message));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#transmit(undefined);
    this.#endpoint.untrack(this);
  }

  receive(): Promise<Json | undefined> {
    if (this.#received.length > 0) return Promise.resolve(this.#received.shift());
    if (this.#broken !== undefined) return Promise.reject(this.#broken);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  peerDied(): void {
    const { peer } = this;
    this.#network.timer(this.#network.faults.timeoutMs, () => peer?.break());
  }

  break(): void {
    if (this.#closed || this.#broken !== undefined || !this.#endpoint.process.alive) return;
    this.#broken = unreachable(`the stream to ${this.#to} broke`);
    this.#endpoint.untrack(this);
    for (const { reject } of this.#waiting.splice(0)) reject(this.#broken);
  }

  #transmit(message: Json | undefined): void {
    const nowMs = this.#endpoint.process.clock.monotonic();
    // Later messages never overtake earlier ones.
    this.#lastArrivalMs = Math.max(this.#lastArrivalMs, nowMs + this.#network.delayMs());
    this.#network.timer(this.#lastArrivalMs - nowMs, () => {
      if (!this.#network.reaches(this.#from, this.#to)) {
        // What cannot get through is sent again until both ends give up.
        this.#network.timer(this.#network.faults.timeoutMs, () => {
          this.break();
          this.peer?.break();
        });
        return;
      }
      this.peer?.arrived(message);
    });
  }

  arrived(message: Json | undefined): void {
    if (this.#broken !== undefined || !this.#endpoint.process.alive) return;
    this.#endpoint.process.clock.timer(0, () => {
      const waiting = this.#waiting.shift();
      if (waiting === undefined) this.#received.push(message);
      else waiting.resolve(message);
    });
  }
}

function way(from: string, to: string): string {
  return `${from}|${to}`;
}

function unreachable(why: string): HansaError {
  return new HansaError('HANSA_UNREACHABLE', `Cannot reach the node: ${why}.`);
}
