// Reads typed fields of messages from other sites. The messages are untrusted: a field that is missing
// or has another form makes the whole message invalid (HANSA_BAD_REQUEST).

import { TrustDomain } from '../api/values/trust-domain.ts';
import { HansaError } from '../core/errors/error.ts';
import { parseBoundedJson } from '../core/json/strict-json.ts';

/** Reads typed fields of an untrusted JSON object. */
export class Message {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(source: unknown) {
    const value = source instanceof Uint8Array ? parseJson(source) : source;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw malformed('it is not a JSON object');
    }
    this.#fields = value as Readonly<Record<string, unknown>>;
  }

  text(key: string, grammar: RegExp): string {
    const value = this.#fields[key];
    if (typeof value !== 'string' || !grammar.test(value))
      throw malformed(`${key} has the wrong format`);
    return value;
  }

  flag(key: string): boolean {
    const value = this.#fields[key];
    if (typeof value !== 'boolean') throw malformed(`${key} is neither true nor false`);
    return value;
  }

  count(key: string): number {
    const value = this.#fields[key];
    if (!Number.isSafeInteger(value) || (value as number) < 0) {
      throw malformed(`${key} is not a whole number`);
    }
    return value as number;
  }

  /** An object with the field, or an empty object if it is absent. */
  optional<K extends string, T>(key: K, read: (value: unknown) => T): { readonly [k in K]?: T } {
    const value = this.#fields[key];
    return value === undefined ? {} : ({ [key]: read(value) } as { readonly [k in K]?: T });
  }

  version(key: string): number {
    return asVersion(this.#fields[key]);
  }

  bytes(key: string, count: number): Buffer {
    const bytes = Buffer.from(this.text(key, /^[\w-]+$/), 'base64url');
    if (bytes.byteLength !== count) throw malformed(`${key} does not have ${count} bytes`);
    return bytes;
  }

  trustDomain(key: string): TrustDomain {
    return TrustDomain.parse(this.text(key, /^[^\s/]{1,255}$/));
  }

  list<T>(key: string, longest: number, read: (item: unknown) => T): readonly T[] {
    const value = this.#fields[key];
    if (!Array.isArray(value)) throw malformed(`${key} is not a list`);
    if (value.length > longest) throw malformed(`${key} has more than ${longest} entries`);
    return value.map(read);
  }

  /** Empty if it is absent. */
  optionalList<T>(key: string, longest: number, read: (item: unknown) => T): readonly T[] {
    return this.#fields[key] === undefined ? [] : this.list(key, longest, read);
  }
}

/** A text that is limited only in length. */
export function asText(value: unknown, longest: number, key = 'a string'): string {
  if (typeof value !== 'string' || value.length > longest)
    throw malformed(`${key} is missing or too long`);
  return value;
}

function parseJson(body: Uint8Array): unknown {
  try {
    return parseBoundedJson(body);
  } catch {
    throw malformed('it is not JSON');
  }
}

export function asVersion(value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > 1000) {
    throw malformed('a contract version is not a number from 1 to 1000');
  }
  return value as number;
}

export function malformed(why: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', `Cannot read the message of the other site: ${why}.`);
}
