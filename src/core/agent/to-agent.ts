// Parses the messages of the site (ToAgent in proto/agent.proto), with limits. The agent has verified the
// site, but a defect of the site must not fill the memory of the agent.

import { fromBinary } from '@bufbuild/protobuf';
import {
  type Item,
  type ItemName as WireName,
  type SignResponse,
  type State,
  type StateVersion as WireVersion,
  ToAgentSchema,
} from '../../../proto/gen/agent_pb.ts';
import { HansaError } from '../errors/error.ts';
import { unpooledCopy } from '../memory/unpooled-copy.ts';
import type { StateStep } from './held-state.ts';
import { maxNonceBytes } from './limits.ts';
import { AgentItem, type ItemName, type StateVersion } from './state.ts';

/** All messages of one step together. */
export const maxStateBytes = 64 * 1024 * 1024;
export const maxStateItems = 100_000;
const hashBytes = 32;
/** Collections and names of objects have at most 253 characters. */
const maxNameChars = 512;

export type ToAgentMessage =
  | { readonly case: 'state'; readonly part: StatePart }
  | { readonly case: 'signed'; readonly response: SignResponse }
  | { readonly case: 'ping' | 'pong'; readonly nonce: Buffer }
  /** A message that only newer agents know. */
  | { readonly case: 'unknown' };

/** One message of a step. */
export interface StatePart extends StateStep {
  readonly more: boolean;
}

/** Throws HANSA_BAD_REQUEST. Copies what it returns, except for the bytes in a SignResponse. */
export function readToAgent(bytes: Uint8Array): ToAgentMessage {
  const { message } = parse(bytes);
  switch (message.case) {
    case 'state':
      return { case: 'state', part: readState(message.value) };
    case 'signed':
      return { case: 'signed', response: message.value };
    case 'ping':
    case 'pong': {
      const { nonce } = message.value;
      if (nonce.byteLength > maxNonceBytes) throw bad(`a nonce of ${nonce.byteLength} bytes`);
      return { case: message.case, nonce: Buffer.from(nonce) };
    }
    case undefined:
      return { case: 'unknown' };
  }
}

function parse(bytes: Uint8Array) {
  try {
    return fromBinary(ToAgentSchema, bytes);
  } catch (cause) {
    throw bad('a message that cannot be parsed', cause);
  }
}

/** Throws HANSA_BAD_REQUEST. */
export function readState({ version, base, put, delete: gone, more }: State): StatePart {
  if (version === undefined) throw bad('a state without a version');
  if (base.byteLength !== 0 && base.byteLength !== hashBytes) throw bad('a base that is no hash');
  return {
    version: readVersion(version),
    base: base.byteLength === 0 ? undefined : unpooledCopy(base),
    put: put.map((item) => readItem(item)),
    delete: gone.map((name) => readName(name)),
    more,
  };
}

function readVersion({ incarnation, revision, epoch, hash }: WireVersion): StateVersion {
  if (incarnation === '' || incarnation.length > maxNameChars) throw bad('a bad incarnation');
  if (hash.byteLength !== hashBytes) throw bad('a hash that is no SHA-256');
  return {
    incarnation,
    revision: readNumber(revision),
    epoch: readNumber(epoch),
    hash: unpooledCopy(hash),
  };
}

function readNumber(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw bad(`the number ${value}`);
  return Number(value);
}

function readItem({ name, value }: Item): AgentItem {
  const read = readName(name);
  return new AgentItem(read.section, read.collection, read.name, unpooledCopy(value));
}

function readName(name: WireName | undefined): ItemName {
  const read = {
    section: name?.section ?? '',
    collection: name?.collection ?? '',
    name: name?.name ?? '',
  };
  for (const part of Object.values(read)) {
    if (part === '' || part.length > maxNameChars || part.includes('\0')) {
      throw bad('an item with a bad name');
    }
  }
  return read;
}

/** Puts the messages of one step together. */
export class StateAssembly {
  #parts: StatePart[] = [];
  #bytes = 0;
  #items = 0;

  /** The step, when `part` was its last message. Throws HANSA_BAD_REQUEST or HANSA_TOO_LARGE. */
  add(part: StatePart, bytes: number): StateStep | undefined {
    const first = this.#parts[0] ?? part;
    if (!isSameStep(first, part)) throw bad('two states at once');
    this.#bytes += bytes;
    this.#items += part.put.length + part.delete.length;
    if (this.#bytes > maxStateBytes || this.#items > maxStateItems) {
      throw new HansaError(
        'HANSA_TOO_LARGE',
        `The site sent a state of more than ${maxStateBytes / 1024 ** 2} MiB or ${maxStateItems} items. Assign fewer entries to this agent.`,
      );
    }
    this.#parts.push(part);
    if (part.more) return undefined;
    const parts = this.#parts;
    this.#parts = [];
    this.#bytes = 0;
    this.#items = 0;
    return {
      version: first.version,
      base: first.base,
      put: parts.flatMap(({ put }) => put),
      delete: parts.flatMap((one) => one.delete),
    };
  }
}

function isSameStep(one: StatePart, other: StatePart): boolean {
  if (one === other) return true;
  const [a, b] = [one.version, other.version];
  return (
    a.incarnation === b.incarnation &&
    a.revision === b.revision &&
    a.epoch === b.epoch &&
    a.hash.equals(b.hash) &&
    (one.base === undefined
      ? other.base === undefined
      : other.base !== undefined && one.base.equals(other.base))
  );
}

function bad(what: string, cause?: unknown): HansaError {
  return new HansaError(
    'HANSA_BAD_REQUEST',
    `The site sent ${what}. Update this agent or the site.`,
    {
      cause,
    },
  );
}
