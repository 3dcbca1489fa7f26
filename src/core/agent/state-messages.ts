// Encodes a step of a state as messages for an agent. The same item goes to many agents, so the bytes
// around its value are encoded once. protobuf accepts the fields of a message in any order.

import { create, toBinary } from '@bufbuild/protobuf';
import {
  ItemNameSchema,
  StateSchema,
  StateVersionSchema,
  type ToAgent,
  ToAgentSchema,
} from '../../../proto/gen/agent_pb.ts';
import { stateMessageBytes } from './limits.ts';
import type { AgentItem, Difference, ItemName, StateVersion } from './state.ts';

export interface StateStep extends Difference {
  readonly version: StateVersion;
  /** The hash of the state that it changes; undefined for a whole state. */
  readonly base: Buffer | undefined;
}

export interface StateMessage {
  readonly message: Buffer;
  readonly isLast: boolean;
}

/** Tags of length-delimited fields: `ToAgent.state`, `State.put`, `State.delete`, `Item.name`, `Item.value`. */
const tags = { state: 0x0a, put: 0x1a, delete: 0x22, itemName: 0x0a, itemValue: 0x12 } as const;
/** `State.more`, true. */
const more = Buffer.from([0x28, 0x01]);

/** The messages of the step, one after the other, each made when it is asked for. At least one. */
export function* stateMessages(step: StateStep): Generator<StateMessage, void> {
  const head = headOf(step);
  let parts: Buffer[] = [head];
  let bytes = head.byteLength;
  const add = (part: Buffer): void => {
    parts.push(part);
    bytes += part.byteLength;
  };
  for (const part of partsOf(step)) {
    if (bytes >= stateMessageBytes) {
      add(more);
      yield { message: wrap(parts, bytes), isLast: false };
      parts = [head];
      bytes = head.byteLength;
    }
    for (const buffer of part) add(buffer);
  }
  yield { message: wrap(parts, bytes), isLast: true };
}

export function encodeToAgent(message: ToAgent['message']): Uint8Array {
  return toBinary(ToAgentSchema, create(ToAgentSchema, { message }));
}

function* partsOf(step: StateStep): Generator<readonly Buffer[], void> {
  for (const name of step.delete) {
    const bytes = nameBytes(name);
    yield [field(tags.delete, bytes.byteLength), bytes];
  }
  for (const item of step.put) yield [itemHead(item), item.value];
}

/** The version and the base, which stand in every message. */
function headOf({ version, base }: StateStep): Buffer {
  const { incarnation, revision, epoch, hash } = version;
  const state = create(StateSchema, {
    version: create(StateVersionSchema, {
      incarnation,
      revision: BigInt(revision),
      epoch: BigInt(epoch),
      hash,
    }),
    base: base ?? Buffer.alloc(0),
  });
  return Buffer.from(toBinary(StateSchema, state));
}

const itemHeads = new WeakMap<AgentItem, Buffer>();

/** The field `put` up to the bytes of the value. */
function itemHead(item: AgentItem): Buffer {
  const known = itemHeads.get(item);
  if (known !== undefined) return known;
  const name = nameBytes(item);
  const inner = Buffer.concat([
    field(tags.itemName, name.byteLength),
    name,
    field(tags.itemValue, item.value.byteLength),
  ]);
  const head = Buffer.concat([field(tags.put, inner.byteLength + item.value.byteLength), inner]);
  itemHeads.set(item, head);
  return head;
}

function nameBytes({ section, collection, name }: ItemName): Buffer {
  const message = create(ItemNameSchema, { section, collection, name });
  return Buffer.from(toBinary(ItemNameSchema, message));
}

function wrap(parts: readonly Buffer[], bytes: number): Buffer {
  return Buffer.concat([field(tags.state, bytes), ...parts]);
}

/** A tag and a length. */
function field(tag: number, length: number): Buffer {
  const bytes = [tag];
  let left = length;
  // A base 128 varint: seven bits per byte, the lowest first.
  for (; left >= 0x80; left = Math.floor(left / 0x80)) bytes.push((left % 0x80) + 0x80);
  bytes.push(left);
  return Buffer.from(bytes);
}
