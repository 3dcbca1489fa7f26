// Audit records: who did what to which object, and the outcome. The bytes of a record are a leaf of
// the Merkle tree, so a record has exactly one encoding, and the decoder accepts no other.

import { HansaError } from '../errors/error.ts';

export interface AuditActor {
  readonly user: string;
  readonly groups: readonly string[];
  /** How the caller was authenticated: certificate, token, socket, controller, … */
  readonly via: string;
  /** What authenticated it (a token's name, a certificate's serial number), never a secret. */
  readonly credential?: string;
  /** Where it came from, as an IP address; absent on Unix sockets. */
  readonly address?: string;
}

/** The user for whom the actor says it acts. This site has not verified it. */
export interface AuditClaim {
  readonly user: string;
  readonly address?: string;
}

export type AuditOutcome = 'allow' | 'deny' | 'error';

/** A record before it is committed; the log adds time, index and revision. */
export interface AuditDraft {
  readonly actor: AuditActor;
  readonly claim?: AuditClaim;
  readonly verb: string;
  readonly kind?: string;
  readonly name?: string;
  readonly uid?: string;
  readonly subresource?: string;
  /** The trust domain of the peer that it concerns, where actor and name do not say it. */
  readonly peer?: string;
  readonly outcome: AuditOutcome;
  /** An error code of the catalog, where the outcome is not allow. */
  readonly code?: string;
  /** Why, in words: the transition that happened, or why it was denied. */
  readonly reason?: string;
  /** Which fields changed, as paths. Never values, so that no secret can enter the log. */
  readonly changed?: readonly string[];
  readonly requestId?: string;
  /** Short hash of the token that it is about. Of aggregated events: the token of the last one. */
  readonly tokenHash?: string;
  /** How many times it happened, where events were aggregated; `since` is the first of them. */
  readonly count?: number;
  readonly since?: string;
}

export interface AuditEvent extends AuditDraft {
  /** RFC 3339 in UTC with milliseconds. */
  readonly time: string;
  readonly index: number;
  /** The revision of the change that was committed with it; absent where nothing changed. */
  readonly revision?: number;
}

/** Longest texts, so that one request adds a bounded number of bytes to the log. */
const limits = {
  word: 256,
  text: 1024,
  groups: 32,
  changed: 64,
} as const;

/** Above what `encodeEvent` can produce (every character escaped). */
export const largestRowBytes = 256 * 1024;

/**
 * Canonical bytes: JSON without spaces, keys in a fixed order, absent keys left out, long texts cut.
 * `time` and `index` come first, so that a reader who searches can find them without parsing.
 */
export function encodeEvent(event: AuditEvent): Buffer {
  const { actor } = event;
  return Buffer.from(
    JSON.stringify({
      time: event.time,
      index: event.index,
      revision: event.revision,
      actor: {
        user: cut(actor.user, limits.word),
        groups: actor.groups.slice(0, limits.groups).map((group) => cut(group, limits.word)),
        via: cut(actor.via, limits.word),
        credential: cutOptional(actor.credential, limits.word),
        address: cutOptional(actor.address, limits.word),
      },
      claim: event.claim && {
        user: cut(event.claim.user, limits.word),
        address: cutOptional(event.claim.address, limits.word),
      },
      verb: cut(event.verb, limits.word),
      kind: cutOptional(event.kind, limits.word),
      name: cutOptional(event.name, limits.word),
      uid: cutOptional(event.uid, limits.word),
      subresource: cutOptional(event.subresource, limits.word),
      peer: cutOptional(event.peer, limits.word),
      outcome: event.outcome,
      code: cutOptional(event.code, limits.word),
      reason: cutOptional(event.reason, limits.text),
      changed: event.changed?.slice(0, limits.changed).map((path) => cut(path, limits.word)),
      requestId: cutOptional(event.requestId, limits.word),
      tokenHash: cutOptional(event.tokenHash, limits.word),
      count: event.count,
      since: event.since,
    }),
  );
}

/** A copy with texts cut as `encodeEvent` cuts them. It keeps no reference to the longer originals. */
export function cutDraft(draft: AuditDraft): AuditDraft {
  // Copies through bytes, because a substring keeps the whole string in memory.
  const {
    time: _time,
    index: _index,
    ...short
  } = JSON.parse(encodeEvent({ ...draft, time: '', index: 0 }).toString('utf8')) as AuditEvent;
  return short;
}

/** Throws HANSA_AUDIT_INVALID for bytes that `encodeEvent` does not write: unknown or repeated keys, other spacing, other types. */
export function parseEvent(row: Uint8Array): AuditEvent {
  const bytes = Buffer.from(row.buffer, row.byteOffset, row.byteLength);
  if (bytes.length > largestRowBytes) {
    throw invalid(`it has ${bytes.length} bytes, but a record has at most ${largestRowBytes}`);
  }
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString('utf8'));
  } catch {
    throw invalid('it is not JSON');
  }
  const fields = new Fields(json, '');
  const actor = new Fields(fields.take('actor'), 'actor.');
  const event: AuditEvent = {
    time: fields.time('time'),
    index: fields.count('index'),
    ...fields.optional('revision', 'count'),
    actor: {
      user: actor.text('user'),
      groups: actor.texts('groups'),
      via: actor.text('via'),
      ...actor.optional('credential', 'text'),
      ...actor.optional('address', 'text'),
    },
    ...claimOf(fields.take('claim')),
    verb: fields.text('verb'),
    ...fields.optional('kind', 'text'),
    ...fields.optional('name', 'text'),
    ...fields.optional('uid', 'text'),
    ...fields.optional('subresource', 'text'),
    ...fields.optional('peer', 'text'),
    outcome: fields.outcome('outcome'),
    ...fields.optional('code', 'text'),
    ...fields.optional('reason', 'text'),
    ...fields.optional('changed', 'texts'),
    ...fields.optional('requestId', 'text'),
    ...fields.optional('tokenHash', 'text'),
    ...fields.optional('count', 'count'),
    ...fields.optional('since', 'time'),
  };
  if (!encodeEvent(event).equals(bytes)) {
    throw invalid('it has unknown fields, or another field order or spacing than a site writes');
  }
  return event;
}

function claimOf(json: unknown): { readonly claim?: AuditClaim } {
  if (json === undefined) return {};
  const claim = new Fields(json, 'claim.');
  return { claim: { user: claim.text('user'), ...claim.optional('address', 'text') } };
}

type Reading = { text: string; texts: readonly string[]; count: number; time: string };

/** Reads typed fields of a parsed JSON object. */
class Fields {
  readonly #from: Readonly<Record<string, unknown>>;
  readonly #prefix: string;

  constructor(json: unknown, prefix: string) {
    if (typeof json !== 'object' || json === null || Array.isArray(json)) {
      throw invalid(`${prefix === '' ? 'it' : prefix.slice(0, -1)} is not an object`);
    }
    this.#from = json as Readonly<Record<string, unknown>>;
    this.#prefix = prefix;
  }

  take(key: string): unknown {
    return this.#from[key];
  }

  text(key: string): string {
    const value = this.#from[key];
    if (typeof value !== 'string') throw this.#wrong(key, 'a string');
    return value;
  }

  texts(key: string): readonly string[] {
    const value = this.#from[key];
    if (!Array.isArray(value) || !value.every((item) => typeof item === 'string')) {
      throw this.#wrong(key, 'a list of strings');
    }
    return value;
  }

  count(key: string): number {
    const value = this.#from[key];
    if (!Number.isSafeInteger(value) || (value as number) < 0) {
      throw this.#wrong(key, 'a whole number');
    }
    return value as number;
  }

  time(key: string): string {
    const value = this.#from[key];
    if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value)) {
      throw this.#wrong(key, 'a time such as 2026-01-01T00:00:00.000Z');
    }
    return value;
  }

  outcome(key: string): AuditOutcome {
    const value = this.#from[key];
    if (value !== 'allow' && value !== 'deny' && value !== 'error') {
      throw this.#wrong(key, 'allow, deny or error');
    }
    return value;
  }

  optional<K extends string, T extends keyof Reading>(
    key: K,
    type: T,
  ): { readonly [P in K]?: Reading[T] } {
    if (this.#from[key] === undefined) return {};
    return { [key]: this[type](key) } as { readonly [P in K]?: Reading[T] };
  }

  #wrong(key: string, expected: string): HansaError {
    return invalid(`${this.#prefix}${key} is not ${expected}`);
  }
}

function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1).toWellFormed()}…`;
}

function cutOptional(text: string | undefined, longest: number): string | undefined {
  return text === undefined ? undefined : cut(text, longest);
}

function invalid(why: string): HansaError {
  return new HansaError('HANSA_AUDIT_INVALID', `Cannot read the audit record: ${why}.`);
}
