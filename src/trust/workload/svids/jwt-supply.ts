// Issues and caches the JWT-SVIDs of entries. A repeated request for the same audience gets the same
// token until half of its lifetime, so it needs no signature and no audit record. The cache is only in
// memory.

import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Clock } from '../../../core/clock/clock.ts';
import type { SiteAuthority } from '../../../core/identity/authority/authority.ts';
import { type IssuedJwtSvid, signJwtSvid } from '../../../core/identity/jwt/sign-svid.ts';
import type { UsableEntry } from '../entries/matching-entries.ts';

export interface JwtSupplyOptions {
  readonly trustDomain: TrustDomain;
  readonly authority: Pick<SiteAuthority, 'jwtSigner' | 'isTainted'>;
  readonly clock: Clock;
  /** The `iss` of the tokens, where the site is an OpenID provider too. */
  readonly issuer: string | undefined;
  /** Called for every token; `record` is undefined for those that are only counted. */
  readonly issued: (entry: UsableEntry, record: JwtRecord | undefined) => void;
}

/** What is to be remembered of a token. */
export interface JwtRecord {
  readonly svid: IssuedJwtSvid;
  readonly audience: readonly string[];
  /** How many of the same entry came before it and were only counted. */
  readonly unrecorded: number;
}

/** About 4 MB of tokens, 50 at worst, and as many entries. The oldest go first. */
const maxHeld = 4096;
/**
 * Audit records per entry and minute, each with the audience of a token. A later record counts the
 * rest. A workload chooses its audiences, and must not be able to fill the audit log with them.
 */
const recordsPerMinute = 60;
const minuteMs = 60_000;

interface Held {
  readonly svid: IssuedJwtSvid;
  readonly renewAtMs: number;
}

interface Recorded {
  readonly sinceMs: number;
  count: number;
  unrecorded: number;
}

export class JwtSupply {
  readonly #options: JwtSupplyOptions;
  readonly #held = new Map<string, Held>();
  readonly #recorded = new Map<string, Recorded>();

  constructor(options: JwtSupplyOptions) {
    this.#options = options;
  }

  /** Throws as `signJwtSvid` does. */
  async svidOf(entry: UsableEntry, audience: readonly string[]): Promise<IssuedJwtSvid> {
    const { clock, authority, trustDomain, issuer } = this.#options;
    const { id, uid, jwtTtlSeconds } = entry;
    const key = JSON.stringify([uid, id.toString(), jwtTtlSeconds, ...audience]);
    const nowMs = clock.now();
    const held = this.#held.get(key);
    if (
      held !== undefined &&
      nowMs < held.renewAtMs &&
      nowMs >= held.svid.issuedAtMs &&
      !authority.isTainted(held.svid.keyId)
    ) {
      return held.svid;
    }
    const sign = (): Promise<IssuedJwtSvid> =>
      signJwtSvid({
        key: authority.jwtSigner,
        trustDomain,
        subject: id,
        audience,
        ttlSeconds: jwtTtlSeconds,
        issuer,
        nowMs,
      });
    let svid = await sign();
    // The key may have been revoked while it signed in another thread.
    while (authority.isTainted(svid.keyId)) svid = await sign();
    setLast(this.#held, key, { svid, renewAtMs: (svid.issuedAtMs + svid.expiresAtMs) / 2 });
    this.#options.issued(entry, this.#record(entry, svid, audience, nowMs));
    return svid;
  }

  #record(
    { uid }: UsableEntry,
    svid: IssuedJwtSvid,
    audience: readonly string[],
    nowMs: number,
  ): JwtRecord | undefined {
    let known = this.#recorded.get(uid);
    if (known === undefined || Math.abs(nowMs - known.sinceMs) >= minuteMs) {
      known = { sinceMs: nowMs, count: 0, unrecorded: known?.unrecorded ?? 0 };
      setLast(this.#recorded, uid, known);
    }
    if (known.count >= recordsPerMinute) {
      known.unrecorded += 1;
      return undefined;
    }
    known.count += 1;
    const { unrecorded } = known;
    known.unrecorded = 0;
    return { svid, audience, unrecorded };
  }
}

/** As the newest, so that of too many the oldest goes. */
function setLast<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > maxHeld) map.delete(map.keys().next().value as string);
}
