// Parses the messages of an agent. Agents are authenticated, but one of them may be compromised: the size
// of a message and the number of all its fields, also of nested ones, are checked before it is decoded.

import { type DescMessage, fromBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { hash } from 'node:crypto';
import {
  type AgentHello,
  FromAgentSchema,
  type Report,
  type SignRequest,
  type StateVersion as WireVersion,
} from '../../../proto/gen/agent_pb.ts';
import { HansaError } from '../errors/error.ts';
import { maxAudiences } from '../identity/jwt/sign-svid.ts';
import {
  maxHelloItems,
  maxHostBytes,
  maxLaterMessageBytes,
  maxNonceBytes,
  maxProblemBytes,
  maxProblems,
  maxReportedCount,
  maxSignBatch,
  maxVersionBytes,
  sessionBytes,
} from './limits.ts';
import { hashState, type HeldItem, keyOf, type StateVersion } from './state.ts';

/** A parsed hello. */
export interface Hello {
  readonly version: string;
  readonly host: string;
  /** SHA-256 of the session, in hex: the site stores it, and the session stays with the agent. */
  readonly session: string;
  /** Undefined where the agent holds nothing, or something that does not fit its own hash. */
  readonly held: HeldState | undefined;
}

export interface HeldState {
  readonly version: StateVersion;
  readonly items: readonly HeldItem[];
}

export interface AgentReport {
  readonly entries: number;
  readonly workloads: number;
  readonly problems: readonly string[];
}

export type FromAgentMessage =
  | { readonly kind: 'hello'; readonly hello: Hello }
  | { readonly kind: 'acknowledge'; readonly version: StateVersion; readonly refused: string }
  | { readonly kind: 'sign'; readonly request: SignRequest }
  | { readonly kind: 'report'; readonly report: AgentReport }
  | { readonly kind: 'ping' | 'pong'; readonly nonce: Buffer }
  /** A message that only newer sites know. */
  | { readonly kind: 'unknown' };

/** A message that no correct agent sends. */
export class ProtocolError extends HansaError {
  constructor(what: string, cause?: unknown) {
    super(
      'HANSA_BAD_REQUEST',
      `The agent broke the protocol: ${what}.`,
      cause === undefined ? {} : { cause },
    );
  }
}

const digestBytes = 32;
/** Most bytes of one part of the name of an item. */
const maxNameBytes = 512;

/**
 * By the number in FromAgent: the kind, and the most fields of the message with those of the messages in
 * it. A field of two bytes becomes an object of a hundred.
 */
const kinds: ReadonlyMap<number, { kind: FromAgentMessage['kind']; mostFields: number }> = new Map([
  // An item has six fields.
  [1, { kind: 'hello', mostFields: maxHelloItems * 8 }],
  [2, { kind: 'acknowledge', mostFields: 16 }],
  // A request, its entry and its audiences. A request for a certificate has fewer.
  [3, { kind: 'sign', mostFields: maxSignBatch * (maxAudiences + 2) }],
  [4, { kind: 'report', mostFields: maxProblems + 8 }],
  [5, { kind: 'ping', mostFields: 8 }],
  [6, { kind: 'pong', mostFields: 8 }],
]);
/** Fields beside the message, which only newer sites know. */
const maxOtherFields = 8;

/**
 * Reads only the first field, so it is cheap for every message. Throws HANSA_TOO_LARGE for a message that
 * is too large for its kind, and HANSA_BAD_REQUEST where it has none.
 */
export function kindOfMessage(bytes: Uint8Array): FromAgentMessage['kind'] {
  const kind = readSafely(() => {
    if (bytes.byteLength === 0) return 'unknown';
    const [field] = new BinaryReader(bytes).tag();
    return kinds.get(field)?.kind ?? 'unknown';
  });
  if (kind !== 'hello' && bytes.byteLength > maxLaterMessageBytes) {
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `A message of ${bytes.byteLength} bytes is too large: after the hello, the limit is ${maxLaterMessageBytes}.`,
    );
  }
  return kind;
}

/** Throws HANSA_BAD_REQUEST or HANSA_TOO_LARGE. */
export function parseFromAgent(bytes: Uint8Array): FromAgentMessage {
  kindOfMessage(bytes);
  const { message } = readSafely(() => {
    checkFields(bytes);
    return fromBinary(FromAgentSchema, bytes, { readUnknownFields: false });
  });
  switch (message.case) {
    case 'hello':
      return { kind: 'hello', hello: parseHello(message.value) };
    case 'acknowledge': {
      const version = parseVersion(message.value.version);
      return { kind: 'acknowledge', version, refused: cut(message.value.refused, maxProblemBytes) };
    }
    case 'sign':
      return { kind: 'sign', request: message.value };
    case 'report':
      return { kind: 'report', report: parseReport(message.value) };
    case 'ping':
    case 'pong':
      if (message.value.nonce.byteLength > maxNonceBytes) {
        throw bad(`a nonce has more than ${maxNonceBytes} bytes`);
      }
      return { kind: message.case, nonce: Buffer.from(message.value.nonce) };
    case undefined:
      return { kind: 'unknown' };
  }
}

function readSafely<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof HansaError) throw cause;
    throw bad('a message is not a FromAgent', cause);
  }
}

/** Throws where a message has more fields than it can need, or is two messages. */
function checkFields(bytes: Uint8Array): void {
  const reader = new BinaryReader(bytes);
  let messages = 0;
  let others = 0;
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    const kind = kinds.get(number);
    const inside = messagesIn(FromAgentSchema).get(number);
    if (kind === undefined || inside === undefined || type !== WireType.LengthDelimited) {
      if (++others > maxOtherFields) throw bad(`a message has more than ${maxOtherFields} parts`);
      skip(reader, type, number);
      continue;
    }
    // Later ones would be merged with the first, or replace it.
    if (++messages > 1 || others > 0) throw bad('a message does not have its one part first');
    const { mostFields } = kind;
    if (countFields(reader.bytes(), inside, mostFields) > mostFields) {
      throw bad(`a message has more than ${mostFields} parts`);
    }
  }
}

/** Counts the fields of a message and of the messages in it, until there are more than `most`. */
function countFields(bytes: Uint8Array, desc: DescMessage, most: number): number {
  const reader = new BinaryReader(bytes);
  const nested = messagesIn(desc);
  let count = 0;
  while (reader.pos < reader.len && count <= most) {
    const [number, type] = reader.tag();
    count++;
    const inside = nested.get(number);
    if (inside === undefined || type !== WireType.LengthDelimited) skip(reader, type, number);
    else count += countFields(reader.bytes(), inside, most - count);
  }
  return count;
}

function skip(reader: BinaryReader, type: WireType, number: number): void {
  // A group has any number of fields, and no message of this protocol has one.
  if (type === WireType.StartGroup) throw bad('a message has a group');
  reader.skip(type, number);
}

const nestedMessages = new Map<DescMessage, ReadonlyMap<number, DescMessage>>();

/** The fields that are messages, or lists of them, by number. */
function messagesIn(desc: DescMessage): ReadonlyMap<number, DescMessage> {
  let found = nestedMessages.get(desc);
  if (found === undefined) {
    found = new Map(
      desc.fields.flatMap(({ number, message }) =>
        message === undefined ? [] : [[number, message] as const],
      ),
    );
    nestedMessages.set(desc, found);
  }
  return found;
}

function parseHello({ version, host, session, held, items }: AgentHello): Hello {
  if (session.byteLength !== sessionBytes) {
    throw bad(`the session has ${session.byteLength} bytes instead of ${sessionBytes}`);
  }
  if (items.length > maxHelloItems) throw bad(`a hello has more than ${maxHelloItems} items`);
  return {
    version: cut(version, maxVersionBytes),
    host: cut(host, maxHostBytes),
    session: hash('sha256', session, 'hex'),
    held:
      held === undefined || held.incarnation === ''
        ? undefined
        : parseHeld(parseVersion(held), items),
  };
}

function parseHeld(version: StateVersion, sent: AgentHello['items']): HeldState | undefined {
  const keys = new Set<string>();
  const items = sent.map(({ name, digest }): HeldItem => {
    if (name === undefined || digest.byteLength !== digestBytes) {
      throw bad('a held item has no name or no digest');
    }
    const { section, collection, name: last } = name;
    for (const part of [section, collection, last]) {
      if (part.includes('\0') || Buffer.byteLength(part) > maxNameBytes) {
        throw bad('a held item has an impossible name');
      }
    }
    const key = keyOf(name);
    keys.add(key);
    return { section, collection, name: last, key, digest: Buffer.from(digest) };
  });
  if (keys.size < items.length) throw bad('two held items have the same name');
  // A whole state repairs an agent whose items differ from its hash.
  return hashState(items).equals(version.hash) ? { version, items } : undefined;
}

function parseVersion(sent: WireVersion | undefined): StateVersion {
  if (sent === undefined) throw bad('a state has no version');
  const { incarnation, revision, epoch } = sent;
  if (Buffer.byteLength(incarnation) > maxNameBytes) throw bad('an incarnation is too long');
  if (revision > BigInt(Number.MAX_SAFE_INTEGER) || epoch > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw bad('a revision or an epoch is too large');
  }
  return {
    incarnation,
    revision: Number(revision),
    epoch: Number(epoch),
    hash: Buffer.from(sent.hash),
  };
}

function parseReport({ entries, workloads, problems }: Report): AgentReport {
  return {
    entries: Math.min(entries, maxReportedCount),
    workloads: Math.min(workloads, maxReportedCount),
    problems: problems.slice(0, maxProblems).map((problem) => cut(problem, maxProblemBytes)),
  };
}

/** Texts of the agent are for people: what is not printable, such as an escape sequence, is replaced. */
function cut(text: string, mostBytes: number): string {
  const short = text.slice(0, mostBytes).toWellFormed();
  return short.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ');
}

function bad(what: string, cause?: unknown): HansaError {
  return new ProtocolError(what, cause);
}
