// The name of a trust domain: SPIFFE-ID section 2.1. An instance is always valid, because only
// `parse` creates it.

import { HansaError } from '../../core/errors/error.ts';

/** SPIFFE-ID section 2.3: the authority of the URI, at most 255 bytes. */
const maxBytes = 255;
const grammar = /^[a-z0-9._-]+$/;

export class TrustDomain {
  readonly #name: string;

  private constructor(name: string) {
    this.#name = name;
  }

  /** What is wrong with a name, in a few words; undefined if nothing is. */
  static problem(name: string): string | undefined {
    if (name === '') return 'it is empty';
    if (name.length > maxBytes) return `it is longer than ${maxBytes} bytes`;
    if (grammar.test(name)) return undefined;
    // Section 2.1: lower case letters, digits, dots, dashes and underscores; no port, no user.
    if (/[A-Z]/.test(name)) return 'it has upper-case letters';
    return 'it may only have lower-case letters, digits, dots, dashes and underscores';
  }

  /** Reads a bare name, for example `lubeck.example`; throws HANSA_BAD_REQUEST. */
  static parse(name: string): TrustDomain {
    const problem = TrustDomain.problem(name);
    if (problem !== undefined) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `${JSON.stringify(excerpt(name))} is not a trust domain: ${problem}.`,
      );
    }
    return new TrustDomain(name);
  }

  get name(): string {
    return this.#name;
  }

  /** The ID of the trust domain itself (section 2.2: the path may be empty). */
  get id(): string {
    return `spiffe://${this.#name}`;
  }

  equals(other: TrustDomain): boolean {
    return this.#name === other.#name;
  }

  toString(): string {
    return this.#name;
  }

  toJSON(): string {
    return this.#name;
  }
}

/** Enough of a bad value to recognize it in a message, and no more: it came from outside. */
export function excerpt(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}
