// The tokens of a site: records in the store, which hold digests and never tokens, and the look-up
// from a presented token to its record. It reads the store's own listing, so a revoked token fails on
// the very next request.

import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '../clock/clock.ts';
import { recordReader } from '../store/reader.ts';
import type { Entry, Store } from '../store/store.ts';
import { digestOfToken, isTokenText } from './token-text.ts';

export const tokensCollection = 'access.tokens';

/** The record of a token. Revocation deletes it; the audit log keeps the history. */
export interface TokenRecord {
  readonly name: string;
  /** Tells this token from an earlier or later one of the same name. */
  readonly id: string;
  /** SHA-256 of the text, in hexadecimal. */
  readonly digest: string;
  readonly role: string;
  readonly createdAt: string;
  readonly createdBy: string;
  readonly expiresAt: string;
}

const records = recordReader<TokenRecord>(tokensCollection);
const expiries = new WeakMap<TokenRecord, number>();

/** Milliseconds since the epoch; a record without it has expired. */
export function expiryOf(record: TokenRecord): number {
  let expiry = expiries.get(record);
  if (expiry === undefined) {
    const parsed = Date.parse(record.expiresAt);
    expiry = Number.isNaN(parsed) ? 0 : parsed;
    expiries.set(record, expiry);
  }
  return expiry;
}

/** The token with this name and id, unless it was revoked or has expired. */
export function liveToken(
  store: Pick<Store, 'get'>,
  name: string,
  id: string,
  nowMs: number,
): TokenRecord | undefined {
  const record = records.get(store, name);
  return record?.id === id && nowMs < expiryOf(record) ? record : undefined;
}

/** Resolution of `lastUsedAt`, so that a busy token does not cost one write per request. */
const lastUsedResolutionMs = 60_000;

export class TokenRegister {
  readonly #store: Pick<Store, 'list' | 'get' | 'facts'>;
  readonly #clock: Clock;
  #entries: readonly Entry[] | undefined;
  #byDigest = new Map<string, TokenRecord>();
  #lastUsed = new WeakMap<TokenRecord, number>();

  constructor(store: Pick<Store, 'list' | 'get' | 'facts'>, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** The record of a token that is neither expired nor revoked; updates `lastUsedAt`. */
  find(text: string): TokenRecord | undefined {
    if (!isTokenText(text)) return undefined;
    const digest = digestOfToken(text);
    // The timing of this look-up leaks nothing: an attacker cannot choose a token by its digest.
    const record = this.#index().get(digest.toString('hex'));
    if (record === undefined || !timingSafeEqual(digest, Buffer.from(record.digest, 'hex')))
      return undefined;
    if (!this.#isLive(record)) return undefined;
    this.#noteUse(record);
    return record;
  }

  /** Whether a record that `find` returned before is still current and valid; updates `lastUsedAt`. */
  confirm(record: TokenRecord): boolean {
    if (this.get(record.name) !== record || !this.#isLive(record)) return false;
    this.#noteUse(record);
    return true;
  }

  /** For certificates that were obtained with a token: whether that token is still valid. */
  findById(name: string, id: string): TokenRecord | undefined {
    return liveToken(this.#store, name, id, this.#clock.now());
  }

  get(name: string): TokenRecord | undefined {
    return records.get(this.#store, name);
  }

  /** In order of their names, the expired ones included. */
  list(): readonly TokenRecord[] {
    return records.list(this.#store);
  }

  lastUsedAt(name: string): string | undefined {
    const at = this.#store.facts.get(tokensCollection, name)?.lastUsedAt;
    return typeof at === 'string' ? at : undefined;
  }

  #isLive(record: TokenRecord): boolean {
    return this.#clock.now() < expiryOf(record);
  }

  #index(): ReadonlyMap<string, TokenRecord> {
    const { entries } = this.#store.list(tokensCollection);
    if (entries !== this.#entries) {
      this.#byDigest = new Map(records.list(this.#store).map((record) => [record.digest, record]));
      this.#entries = entries;
    }
    return this.#byDigest;
  }

  #noteUse(record: TokenRecord): void {
    const now = this.#clock.now();
    const last = this.#lastUsed.get(record);
    if (last !== undefined && now - last < lastUsedResolutionMs) return;
    this.#lastUsed.set(record, now);
    this.#store.facts.merge(tokensCollection, record.name, {
      lastUsedAt: new Date(now).toISOString(),
    });
  }
}
