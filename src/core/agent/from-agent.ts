// Parses the messages of an agent. Agents are authenticated, but one of them may be compromised: every
// message is bounded before it is decoded.

import { fromBinary } from '@bufbuild/protobuf';
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
 * The most fields of each message, by its number in FromAgent. Counted before decoding, because a
 * message of two bytes becomes an object of a hundred.
 */
const mostFields: ReadonlyMap<number, number> = new Map([
  [1, maxHelloItems + 8],
  [2, 8],
  [3, maxSignBatch + 1],
  [4, maxProblems + 8],
  [5, 8],
  [6, 8],
]);

/** Throws HANSA_BAD_REQUEST or HANSA_TOO_LARGE. */
export function parseFromAgent(bytes: Uint8Array): FromAgentMessage {
  const { message } = decode(bytes);
  if (message.case !== 'hello' && bytes.byteLength > maxLaterMessageBytes) {
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `A message of ${bytes.byteLength} bytes is too large: after the hello, the limit is ${maxLaterMessageBytes}.`,
    );
  }
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

function decode(bytes: Uint8Array) {
  try {
    countFields(bytes);
    return fromBinary(FromAgentSchema, bytes, { readUnknownFields: false });
  } catch (cause) {
    if (cause instanceof HansaError) throw cause;
    throw bad('a message is not a FromAgent', cause);
  }
}

/** Throws where a message has more fields than it can need. */
function countFields(bytes: Uint8Array): void {
  const reader = new BinaryReader(bytes);
  let left: number | undefined;
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    const most = mostFields.get(field);
    if (most === undefined || type !== WireType.LengthDelimited) {
      reader.skip(type, field);
      continue;
    }
    // A repeated message is merged with the one before, so all of them count together.
    left ??= most;
    const inner = new BinaryReader(reader.bytes());
    while (inner.pos < inner.len) {
      const [number, inside] = inner.tag();
      inner.skip(inside, number);
      if (--left < 0) throw bad(`a message has more than ${most} parts`);
    }
  }
}

function parseHello({ version, host, session, held, items }: AgentHello): Hello {
  if (session.byteLength !== sessionBytes) {
    throw bad(`the session has ${session.byteLength} bytes instead of ${sessionBytes}`);
  }
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
