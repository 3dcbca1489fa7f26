// Caches the JWT-SVIDs of entries. A repeated request for the same audience gets the same token until
// half of its lifetime, so it needs no signature and no audit record. The cache is only in memory.

import type { Clock } from '../../../core/clock/clock.ts';
import type { IssuedJwtSvid } from '../../../core/identity/jwt/sign-svid.ts';
import type { UsableEntry } from '../entries/matching-entries.ts';
import type { SvidIssuer } from './issuer.ts';

export interface JwtSupplyOptions {
  readonly issuer: Pick<SvidIssuer, 'issueJwt' | 'isTainted'>;
  readonly clock: Clock;
  /** Called for every token that was signed. */
  readonly issued: () => void;
}

/** About 4 MB of tokens, 50 at worst. The oldest go first. */
const maxHeld = 4096;
/** After a failure, a token that is still valid is used for this long before the next attempt. */
const retryMs = 5_000;

interface Held {
  readonly svid: IssuedJwtSvid;
  readonly renewAtMs: number;
}

export class JwtSupply {
  readonly #options: JwtSupplyOptions;
  readonly #held = new Map<string, Held>();
  readonly #pending = new Map<string, Promise<IssuedJwtSvid>>();

  constructor(options: JwtSupplyOptions) {
    this.#options = options;
  }

  /**
   * Throws as `SvidIssuer.issueJwt` does. Where that fails, a token that is still valid goes on.
   * Concurrent calls for the same token share one request.
   */
  async svidOf(entry: UsableEntry, audience: readonly string[]): Promise<IssuedJwtSvid> {
    const { id, uid, jwtTtlSeconds } = entry;
    const key = JSON.stringify([uid, id.toString(), jwtTtlSeconds, ...audience]);
    const nowMs = this.#options.clock.now();
    const held = this.#usable(key, nowMs);
    if (held !== undefined && nowMs < held.renewAtMs) return held.svid;
    let pending = this.#pending.get(key);
    if (pending === undefined) {
      pending = this.#issue(key, entry, audience).finally(() => this.#pending.delete(key));
      this.#pending.set(key, pending);
    }
    try {
      return await pending;
    } catch (error) {
      const failedMs = this.#options.clock.now();
      const usable = this.#usable(key, failedMs);
      if (usable === undefined) throw error;
      this.#held.set(key, { ...usable, renewAtMs: failedMs + retryMs });
      return usable.svid;
    }
  }

  /** Forgets all tokens. */
  clear(): void {
    this.#held.clear();
  }

  #usable(key: string, nowMs: number): Held | undefined {
    const held = this.#held.get(key);
    if (held === undefined) return undefined;
    const { issuedAtMs, expiresAtMs, keyId } = held.svid;
    const isValid = nowMs >= issuedAtMs && nowMs < expiresAtMs;
    return isValid && !this.#options.issuer.isTainted(keyId) ? held : undefined;
  }

  async #issue(
    key: string,
    entry: UsableEntry,
    audience: readonly string[],
  ): Promise<IssuedJwtSvid> {
    const svid = await this.#options.issuer.issueJwt(entry, audience);
    // As the newest, so that of too many the oldest goes.
    this.#held.delete(key);
    this.#held.set(key, { svid, renewAtMs: (svid.issuedAtMs + svid.expiresAtMs) / 2 });
    if (this.#held.size > maxHeld) this.#held.delete(this.#held.keys().next().value as string);
    this.#options.issued();
    return svid;
  }
}
