// SPIFFE IDs: SPIFFE-ID sections 2, 2.1 to 2.3. An instance is always valid, because only the
// static functions create it.

import { HansaError } from '../../core/errors/error.ts';
import { excerpt, TrustDomain } from './trust-domain.ts';

/** Section 2.3: implementations must support IDs of up to 2048 bytes, and must not make longer ones. */
const maxBytes = 2048;
const scheme = 'spiffe://';
/** Section 2.2: letters, digits, dots, dashes and underscores. */
const segment = /^[a-zA-Z0-9._-]+$/;

/** For schemas: what `parse` takes, apart from the length. A segment is not `.` or `..`. */
export const spiffeIdPattern =
  '^spiffe://[a-z0-9._-]{1,255}(/(\\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]*|\\.{3}[A-Za-z0-9._-]*))*$';

export class SpiffeId {
  readonly #trustDomain: TrustDomain;
  readonly #path: string;
  readonly #text: string;

  private constructor(trustDomain: TrustDomain, path: string) {
    this.#trustDomain = trustDomain;
    this.#path = path;
    this.#text = trustDomain.id + path;
  }

  /** Reads a URI, for example `spiffe://lubeck.example/web`; throws HANSA_BAD_REQUEST. */
  static parse(uri: string): SpiffeId {
    const refuse = (why: string): never => {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `${JSON.stringify(excerpt(uri))} is not a SPIFFE ID: ${why}.`,
      );
    };
    // All characters of an ID are ASCII: a longer text in bytes fails below in any case.
    if (uri.length > maxBytes) return refuse(`it is longer than ${maxBytes} bytes`);
    // Section 2: the scheme is case-insensitive in URIs, but SPIFFE IDs are written in lower case.
    if (!uri.startsWith(scheme)) return refuse(`it does not start with ${scheme}`);
    const slash = uri.indexOf('/', scheme.length);
    const name = slash === -1 ? uri.slice(scheme.length) : uri.slice(scheme.length, slash);
    const path = slash === -1 ? '' : uri.slice(slash);
    const trustDomainProblem = TrustDomain.problem(name);
    if (trustDomainProblem !== undefined) {
      return refuse(
        `its trust domain ${JSON.stringify(excerpt(name))} is wrong: ${trustDomainProblem}`,
      );
    }
    const problem = pathProblem(path);
    if (problem !== undefined) return refuse(problem);
    return new SpiffeId(TrustDomain.parse(name), path);
  }

  /** An ID in a trust domain from the segments of its path; none for the trust domain itself. Names from outside are safe here: a slash in one is refused. */
  static of(trustDomain: TrustDomain, ...segments: readonly string[]): SpiffeId {
    const uri = [trustDomain.id, ...segments].join('/');
    if (segments.some((part) => part.includes('/'))) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `${JSON.stringify(excerpt(uri))} cannot be made: a segment of its path has a slash within.`,
      );
    }
    return SpiffeId.parse(uri);
  }

  get trustDomain(): TrustDomain {
    return this.#trustDomain;
  }

  /** Empty, or beginning with `/`. */
  get path(): string {
    return this.#path;
  }

  get segments(): readonly string[] {
    return this.#path === '' ? [] : this.#path.slice(1).split('/');
  }

  /** `/hansa` and everything below it belong to Hansa: only their own issuers give them out. */
  get isReserved(): boolean {
    return isReservedPath(this.#path);
  }

  memberOf(trustDomain: TrustDomain): boolean {
    return this.#trustDomain.equals(trustDomain);
  }

  equals(other: SpiffeId): boolean {
    return this.#path === other.#path && this.#trustDomain.equals(other.#trustDomain);
  }

  toString(): string {
    return this.#text;
  }

  toJSON(): string {
    return this.toString();
  }
}

export function isReservedPath(path: string): boolean {
  return path === '/hansa' || path.startsWith('/hansa/');
}

/** Section 2.2: segments are not empty, not dots, of a small alphabet; no slash at the end, no query. */
function pathProblem(path: string): string | undefined {
  if (path === '') return undefined;
  if (path.endsWith('/')) return 'its path ends with a slash';
  for (const part of path.slice(1).split('/')) {
    if (part === '') return 'its path has an empty segment';
    if (part === '.' || part === '..') return 'a segment of its path is . or ..';
    if (!segment.test(part)) {
      return 'its path may only have letters, digits, dots, dashes and underscores between slashes';
    }
  }
  return undefined;
}
