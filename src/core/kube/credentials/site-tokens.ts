// JWT-SVIDs of the site itself, for API servers that trust its OIDC issuer. Each is used for half of its
// life.

import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Clock } from '../../clock/clock.ts';
import type { SiteAuthority } from '../../identity/authority/authority.ts';
import { type IssuedJwtSvid, signSiteJwtSvid } from '../../identity/jwt/sign-svid.ts';
import { credentialProblem } from './credential-problem.ts';

/** An API server that rejects everything must not make the site sign a token for each request. */
const newMs = 10_000;

export interface SiteTokenParts {
  readonly trustDomain: TrustDomain;
  readonly authority: Pick<SiteAuthority, 'jwtSigner'>;
  readonly jwtIssuer: () => string | undefined;
  readonly clock: Pick<Clock, 'now'>;
}

export class SiteTokens {
  readonly #parts: SiteTokenParts;
  /** By audience: the token, or the one that is being signed. Audiences come from Clusters, so there are few. */
  readonly #issued = new Map<string, IssuedJwtSvid | Promise<IssuedJwtSvid>>();

  constructor(parts: SiteTokenParts) {
    this.#parts = parts;
  }

  for(audience: string): IssuedJwtSvid | Promise<IssuedJwtSvid> {
    const known = this.#issued.get(audience);
    if (known instanceof Promise || (known !== undefined && this.#isFresh(known))) return known;
    const signing = this.#signAndKeep(audience);
    this.#issued.set(audience, signing);
    return signing;
  }

  /** Makes the next request use a new token, unless this one is new: another one would be rejected, too. */
  forget(token: string): void {
    for (const [audience, issued] of this.#issued) {
      if (issued instanceof Promise || issued.token !== token) continue;
      const ageMs = this.#parts.clock.now() - issued.issuedAtMs;
      if (ageMs >= newMs) this.#issued.delete(audience);
    }
  }

  /** The key may have been revoked, and the clock may have been set back. */
  #isFresh({ keyId, issuedAtMs, expiresAtMs }: IssuedJwtSvid): boolean {
    const { authority, clock } = this.#parts;
    const nowMs = clock.now();
    return (
      keyId === authority.jwtSigner.keyId &&
      nowMs >= issuedAtMs &&
      nowMs < (issuedAtMs + expiresAtMs) / 2
    );
  }

  async #signAndKeep(audience: string): Promise<IssuedJwtSvid> {
    try {
      const issued = await this.#sign(audience);
      this.#issued.set(audience, issued);
      return issued;
    } catch (error) {
      this.#issued.delete(audience);
      throw error;
    }
  }

  async #sign(audience: string): Promise<IssuedJwtSvid> {
    const { trustDomain, authority, jwtIssuer, clock } = this.#parts;
    const issuer = jwtIssuer();
    if (issuer === undefined) {
      throw credentialProblem(
        'NoIssuer',
        'This site has no OIDC issuer, so no API server can verify its JWT-SVIDs. Set jwt.issuer and restart the site.',
      );
    }
    return signSiteJwtSvid({
      key: authority.jwtSigner,
      trustDomain,
      audience: [audience],
      issuer,
      nowMs: clock.now(),
    });
  }
}
