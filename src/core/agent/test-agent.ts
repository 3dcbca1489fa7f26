// For tests only: an agent at the other end of a stream in memory. It applies states as a real one does,
// and a test decides what it answers.

import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import {
  FromAgentSchema,
  type SignResponse,
  type State,
  ToAgentSchema,
} from '../../../proto/gen/agent_pb.ts';
import { settle } from '../clock/virtual.ts';
import { HansaError } from '../errors/error.ts';
import type { AgentCall } from '../plane/stream.ts';
import { AgentItem, hashState, keyOf, type StateVersion } from './state.ts';

type Said = NonNullable<MessageInitShape<typeof FromAgentSchema>['message']>;

export interface TestAgentOptions {
  readonly name?: string;
  /** Defaults to one session for all agents of a name. */
  readonly session?: string;
  readonly address?: string;
  readonly serial?: string;
}

/** Lets everything run that waits for no timer. */
export async function quiet(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await settle();
}

/** What an agent keeps between two streams. */
export class AgentMemory {
  items = new Map<string, AgentItem>();
  version: StateVersion | undefined;

  get names(): readonly string[] {
    return [...this.items.values()].map(({ name }) => name).toSorted();
  }
}

/** One stream of an agent, with the call that the site gets. */
export class TestAgent {
  readonly memory: AgentMemory;
  readonly states: State[] = [];
  readonly responses: SignResponse[] = [];
  readonly pongs: Buffer[] = [];
  readonly call: AgentCall;
  /** What the agent does by itself. */
  acknowledges = true;
  /** Whether the authority of its SVID is revoked. */
  isRevoked = false;
  answersPings = true;
  /** The text with which it refuses the next state. */
  refuses: string | undefined;
  /** Whether it reads: if not, the site's writes wait. */
  #reads = true;
  readonly #waitingWrites: (() => void)[] = [];
  /** Set after the site has answered with a status: a write then is a defect. */
  isAnswered = false;
  lateWrites = 0;
  readonly #over = new AbortController();
  readonly #inbox: (Buffer | undefined)[] = [];
  readonly #session: Buffer;
  #awaited: ((message: Buffer | undefined) => void) | undefined;
  #step: State[] = [];

  constructor(memory = new AgentMemory(), options: TestAgentOptions = {}) {
    const { name = 'crane', session = 'one', address = '192.0.2.1', serial = '0a' } = options;
    this.memory = memory;
    this.#session = hash('sha256', session, 'buffer').subarray(0, 16);
    const isRevoked = (): boolean => this.isRevoked;
    this.call = {
      agent: { name },
      get isRevoked() {
        return isRevoked();
      },
      address,
      svid: { serialHex: serial, id: `spiffe://lubeck.example/hansa/agent/${name}` } as never,
      signal: this.#over.signal,
      exportKeyingMaterial: (label, length) => Buffer.alloc(length, label),
      read: () => this.#read(),
      write: (message) => this.#write(message),
    };
  }

  hello(): void {
    const { version, items } = this.memory;
    this.say({
      case: 'hello',
      value: {
        version: '1.0',
        host: 'quay',
        session: this.#session,
        ...(version && {
          held: {
            ...version,
            revision: BigInt(version.revision),
            epoch: BigInt(version.epoch),
          },
        }),
        items: [...items.values()].map(({ section, collection, name, digest }) => ({
          name: { section, collection, name },
          digest,
        })),
      },
    });
  }

  say(message: Said): void {
    this.sayBytes(toBinary(FromAgentSchema, create(FromAgentSchema, { message })));
  }

  sayBytes(bytes: Uint8Array): void {
    this.#push(Buffer.from(bytes));
  }

  /** Closes the agent's half. */
  close(): void {
    this.#push(undefined);
  }

  /** The connection breaks, or the site ends the call. */
  abort(error = new HansaError('HANSA_UNAVAILABLE', 'The caller ended the call.')): void {
    this.#over.abort(error);
    this.#awaited?.(undefined);
    this.resume();
  }

  pause(): void {
    this.#reads = false;
  }

  resume(): void {
    this.#reads = true;
    for (const go of this.#waitingWrites.splice(0)) go();
  }

  get waitingWrites(): number {
    return this.#waitingWrites.length;
  }

  acknowledge(version: State['version'], refused = ''): void {
    assert.ok(version);
    this.say({ case: 'acknowledge', value: { version, refused } });
  }

  #push(message: Buffer | undefined): void {
    const awaited = this.#awaited;
    this.#awaited = undefined;
    if (awaited === undefined) this.#inbox.push(message);
    else awaited(message);
  }

  async #read(): Promise<Buffer | undefined> {
    this.#over.signal.throwIfAborted();
    const next =
      this.#inbox.length > 0
        ? this.#inbox.shift()
        : await new Promise<Buffer | undefined>((resolve) => {
            this.#awaited = resolve;
          });
    this.#over.signal.throwIfAborted();
    return next;
  }

  async #write(message: Uint8Array): Promise<void> {
    this.#over.signal.throwIfAborted();
    if (this.isAnswered) this.lateWrites++;
    this.#receive(message);
    if (!this.#reads) await new Promise<void>((resolve) => this.#waitingWrites.push(resolve));
    this.#over.signal.throwIfAborted();
  }

  #receive(bytes: Uint8Array): void {
    const { message } = fromBinary(ToAgentSchema, bytes);
    switch (message.case) {
      case 'state':
        this.states.push(message.value);
        this.#step.push(message.value);
        if (!message.value.more) this.#apply();
        break;
      case 'signed':
        this.responses.push(message.value);
        break;
      case 'ping':
        if (this.answersPings) this.say({ case: 'pong', value: { nonce: message.value.nonce } });
        break;
      case 'pong':
        this.pongs.push(Buffer.from(message.value.nonce));
        break;
      case undefined:
        assert.fail('the site sent an unknown message');
    }
  }

  #apply(): void {
    const step = this.#step;
    this.#step = [];
    const version = step.at(-1)?.version;
    assert.ok(version);
    const refuses = this.refuses ?? this.#problem(step, version);
    this.refuses = undefined;
    if (refuses === undefined) {
      this.memory.items = itemsAfter(this.memory.items, step);
      this.memory.version = {
        incarnation: version.incarnation,
        revision: Number(version.revision),
        epoch: Number(version.epoch),
        hash: Buffer.from(version.hash),
      };
    }
    if (this.acknowledges) this.acknowledge(version, refuses);
  }

  #problem(step: readonly State[], version: NonNullable<State['version']>): string | undefined {
    const held = this.memory.version;
    const base = Buffer.from(step[0]?.base ?? []);
    if (base.length > 0 && !base.equals(held?.hash ?? Buffer.alloc(0))) return 'another base';
    if (held?.incarnation === version.incarnation && held.revision > Number(version.revision)) {
      return 'an older revision';
    }
    if (held !== undefined && held.epoch > Number(version.epoch)) return 'an older epoch';
    const after = itemsAfter(this.memory.items, step);
    return hashState(after.values()).equals(version.hash) ? undefined : 'another hash';
  }
}

function itemsAfter(before: Map<string, AgentItem>, step: readonly State[]) {
  const isWhole = step[0]?.base.byteLength === 0;
  const items = new Map(isWhole ? [] : before);
  for (const part of step) {
    for (const name of part.delete) items.delete(keyOf(name));
    for (const { name, value } of part.put) {
      assert.ok(name);
      const item = new AgentItem(name.section, name.collection, name.name, Buffer.from(value));
      items.set(keyOf(item), item);
    }
  }
  return items;
}
