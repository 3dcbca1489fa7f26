// A site for tests of the agent's end: an in-memory stream, and the messages that a correct site sends.

import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  type AgentHello,
  type FromAgent,
  FromAgentSchema,
  ToAgentSchema,
} from '../../../proto/gen/agent_pb.ts';
import { HansaError } from '../errors/error.ts';
import type { SiteStream } from './agent-link.ts';
import {
  AgentItem,
  difference,
  hashState,
  type HeldItem,
  type ItemName,
  keyOf,
  type StateVersion,
} from './state.ts';

type ToAgentInit = NonNullable<
  Exclude<MessageInitShape<typeof ToAgentSchema>, { $typeName: string }>['message']
>;

/** One end in the test, the other in the agent. */
export class TestStream implements SiteStream {
  readonly exporter = Buffer.alloc(32, 7);
  readonly sent: FromAgent['message'][] = [];
  backlogBytes = 0;
  closed = false;
  readonly #site: (message: FromAgent['message'], stream: TestStream) => void;
  readonly #queue: Buffer[] = [];
  #waiting: PromiseWithResolvers<Buffer> | undefined;
  #error: Error | undefined;

  constructor(site: (message: FromAgent['message'], stream: TestStream) => void) {
    this.#site = site;
  }

  read(): Promise<Buffer> {
    const next = this.#queue.shift();
    if (next !== undefined) return Promise.resolve(next);
    if (this.#error !== undefined) return Promise.reject(this.#error);
    this.#waiting = Promise.withResolvers<Buffer>();
    return this.#waiting.promise;
  }

  write(bytes: Uint8Array): void {
    if (this.closed) return;
    const { message } = fromBinary(FromAgentSchema, bytes);
    this.sent.push(message);
    this.#site(message, this);
  }

  close(): void {
    this.end(new HansaError('HANSA_UNREACHABLE', 'The stream is closed.'));
  }

  /** The site, or the network, ends the stream. */
  end(error: Error): void {
    if (this.closed) return;
    this.closed = true;
    this.#error = error;
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }

  /** To the agent. */
  say(message: ToAgentInit): void {
    this.sayBytes(toBinary(ToAgentSchema, create(ToAgentSchema, { message })));
  }

  sayBytes(bytes: Uint8Array): void {
    if (this.closed) return;
    const buffer = Buffer.from(bytes);
    if (this.#waiting === undefined) this.#queue.push(buffer);
    else {
      const { resolve } = this.#waiting;
      this.#waiting = undefined;
      resolve(buffer);
    }
  }
}

/** What a site knows of the agent of a stream. */
interface AgentAtSite {
  /** What it has acknowledged; undefined: it needs a whole state. */
  held: { readonly hash: Buffer; readonly items: readonly HeldItem[] } | undefined;
  /** Not acknowledged yet. */
  sent: { readonly version: StateVersion; readonly items: readonly AgentItem[] } | undefined;
  /** In how many messages the next step goes out; undefined: there is none. */
  due: number | undefined;
}

/** A site that follows the protocol: it sends a step after the one before was acknowledged. */
export class TestSite {
  readonly streams: TestStream[] = [];
  readonly hellos: AgentHello[] = [];
  readonly refusals: string[] = [];
  incarnation = 'one';
  revision = 1;
  epoch = 1;
  /** Connecting fails with this. */
  away: HansaError | undefined;
  /** Sees each message first; returns whether it dealt with it. */
  intercept: ((message: FromAgent['message'], stream: TestStream) => boolean) | undefined;
  readonly #items = new Map<string, AgentItem>();
  readonly #agents = new Map<TestStream, AgentAtSite>();

  readonly connect = (): Promise<TestStream> => {
    if (this.away !== undefined) return Promise.reject(this.away);
    const stream = new TestStream((message, on) => this.#hear(message, on));
    this.streams.push(stream);
    return Promise.resolve(stream);
  };

  get items(): readonly AgentItem[] {
    return [...this.#items.values()];
  }

  get hash(): Buffer {
    return hashState(this.#items.values());
  }

  get version(): StateVersion {
    const { incarnation, revision, epoch, hash } = this;
    return { incarnation, revision, epoch, hash };
  }

  get open(): TestStream | undefined {
    return this.streams.findLast(({ closed }) => !closed);
  }

  set(name: string, value: string, section = 'identities'): void {
    this.setItem(section, 'things', name, Buffer.from(value));
  }

  setItem(section: string, collection: string, name: string, value: Buffer): void {
    const item = new AgentItem(section, collection, name, value);
    this.#items.set(keyOf(item), item);
    this.revision++;
  }

  unset(name: string, section = 'identities'): void {
    this.#items.delete(keyOf({ section, collection: 'things', name }));
    this.revision++;
  }

  /** Sends what changed to all agents: to each when it has acknowledged the step before. */
  push(parts = 1): void {
    for (const [stream, agent] of this.#agents) {
      agent.due = parts;
      this.#advance(stream, agent);
    }
  }

  /** All streams break. */
  cut(error = new HansaError('HANSA_UNREACHABLE', 'The connection broke.')): void {
    for (const stream of this.streams) stream.end(error);
  }

  #hear(message: FromAgent['message'], stream: TestStream): void {
    if (this.intercept?.(message, stream) === true) return;
    if (message.case === 'hello') {
      this.hellos.push(message.value);
      const items = message.value.items.map((item) => {
        const { section = '', collection = '', name = '' } = item.name ?? {};
        const key = keyOf({ section, collection, name });
        return { section, collection, name, key, digest: Buffer.from(item.digest) };
      });
      const hash = message.value.held?.hash;
      const held = hash && { hash: Buffer.from(hash), items };
      this.#advance(stream, { held, sent: undefined, due: 1 });
    }
    const agent = this.#agents.get(stream);
    if (message.case === 'acknowledge' && agent !== undefined) {
      const { refused, version } = message.value;
      if (refused !== '') {
        this.refusals.push(refused);
        this.#advance(stream, { held: undefined, sent: undefined, due: 1 });
      } else if (agent.sent?.version.hash.equals(version?.hash ?? Buffer.alloc(0)) === true) {
        agent.held = { hash: agent.sent.version.hash, items: agent.sent.items };
        agent.sent = undefined;
        this.#advance(stream, agent);
      }
    }
    if (message.case === 'ping') {
      stream.say({ case: 'pong', value: { nonce: message.value.nonce } });
    }
  }

  #advance(stream: TestStream, agent: AgentAtSite): void {
    this.#agents.set(stream, agent);
    const { held, sent, due: parts } = agent;
    if (parts === undefined || sent !== undefined || stream.closed) return;
    agent.due = undefined;
    agent.sent = { version: this.version, items: this.items };
    const { put, delete: gone } = difference(held?.items ?? [], this.items);
    const size = Math.ceil(put.length / parts);
    for (let part = 0; part < parts; part++) {
      stream.say({
        case: 'state',
        value: {
          version: wireVersion(this.version),
          base: held?.hash ?? new Uint8Array(),
          put: put.slice(part * size, (part + 1) * size).map(wireItem),
          delete: part === 0 ? gone.map((one) => wireName(one)) : [],
          more: part < parts - 1,
        },
      });
    }
  }
}

export function wireVersion({ incarnation, revision, epoch, hash }: StateVersion) {
  return { incarnation, revision: BigInt(revision), epoch: BigInt(epoch), hash };
}

function wireName({ section, collection, name }: ItemName) {
  return { section, collection, name };
}

function wireItem(item: AgentItem) {
  return { name: wireName(item), value: item.value };
}
