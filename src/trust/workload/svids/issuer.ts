// Issues the SVIDs of entries, behind one interface: a site signs them itself, an agent asks its site.
// The supplies of X.509-SVIDs and JWT-SVIDs cache what an issuer returns.

import type { KeyObject } from 'node:crypto';
import { timestamp } from '../../../api/object.ts';
import type { AuditActor } from '../../../core/audit/event.ts';
import type { Audit } from '../../../core/audit/log.ts';
import type { Clock } from '../../../core/clock/clock.ts';
import type { IssuedSvid, SiteAuthority } from '../../../core/identity/authority/authority.ts';
import { type IssuedJwtSvid, signJwtSvid } from '../../../core/identity/jwt/sign-svid.ts';
import { PublicKey } from '../../../core/identity/x509/keys.ts';
import type { UsableEntry } from '../entries/matching-entries.ts';
import { JwtRecordLimit } from './jwt-record-limit.ts';

/**
 * Safe to call concurrently. Does not retry, and caches nothing. Records what it issues: a caller that
 * drops the result has used a signature and an audit record.
 */
export interface SvidIssuer {
  /** Identity, DNS names and lifetime come from the entry. The private key proves possession; it never leaves the process. */
  issue(entry: UsableEntry, key: KeyObject): Promise<IssuedSvid>;
  /** Rejects with HANSA_BAD_REQUEST for an audience that is not accepted. */
  issueJwt(entry: UsableEntry, audience: readonly string[]): Promise<IssuedJwtSvid>;
  /** Whether SVIDs of this X.509 authority or JWT key must be replaced: it is tainted, revoked or unknown. */
  isTainted(id: string): boolean;
}

export interface SiteIssuerOptions {
  readonly authority: Pick<SiteAuthority, 'issue' | 'isTainted' | 'jwtSigner' | 'trustDomain'>;
  readonly clock: Clock;
  readonly audit: Pick<Audit, 'later'>;
  /** The `iss` of JWT-SVIDs, where the site is an OpenID provider too; undefined: they have none. */
  readonly jwtIssuer: string | undefined;
}

const siteActor: AuditActor = { user: 'system:workload-api', groups: [], via: 'controller' };

/** Issues with the authorities of this site. Its audit records are written soon after. */
export function siteIssuer(options: SiteIssuerOptions): SvidIssuer {
  const { authority, clock, audit, jwtIssuer } = options;
  const limit = new JwtRecordLimit();
  const record = (entry: UsableEntry, what: string): void =>
    audit.later({
      actor: siteActor,
      verb: 'svid.issue',
      kind: 'WorkloadEntry',
      name: entry.name,
      uid: entry.uid,
      outcome: 'allow',
      reason: `${entry.id.toString()}, ${what}`,
    });
  return {
    issue: async (entry, key) => {
      const svid = await authority.issue({
        spiffeId: entry.id,
        publicKey: PublicKey.of(key),
        ttlSeconds: entry.ttlSeconds,
        dnsNames: entry.dnsNames,
      });
      record(entry, `serial number ${svid.serialHex}, until ${timestamp(svid.notAfterMs)}`);
      return svid;
    },
    issueJwt: async (entry, audience) => {
      const nowMs = clock.now();
      const sign = (): Promise<IssuedJwtSvid> =>
        signJwtSvid({
          key: authority.jwtSigner,
          trustDomain: authority.trustDomain,
          subject: entry.id,
          audience,
          ttlSeconds: entry.jwtTtlSeconds,
          issuer: jwtIssuer,
          nowMs,
        });
      let svid = await sign();
      // The key may have been revoked while it signed in another thread.
      while (authority.isTainted(svid.keyId)) svid = await sign();
      const unrecorded = limit.take(entry.uid, nowMs);
      if (unrecorded !== undefined) record(entry, describeJwt(svid, audience, unrecorded));
      return svid;
    },
    isTainted: (id) => authority.isTainted(id),
  };
}

/** The text of an audit record. */
export function describeJwt(
  svid: Pick<IssuedJwtSvid, 'keyId' | 'expiresAtMs'>,
  audience: readonly string[],
  unrecorded: number,
): string {
  const more = unrecorded === 0 ? '' : `; and ${unrecorded} more before it`;
  return `JWT-SVID for ${shortened(audience)} with key ${svid.keyId}, until ${timestamp(svid.expiresAtMs)}${more}`;
}

/** A workload chooses its audiences, so an audit record contains only this much of them. */
function shortened(audience: readonly string[]): string {
  const text = JSON.stringify(audience);
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`;
}
