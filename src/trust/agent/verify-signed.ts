// Verifies SVIDs that the site sends to an agent, before a workload gets them: the key, the identity, the
// validity, and the signature of an authority of the site. Pure.

import { excerpt } from '../../api/values/trust-domain.ts';
import {
  errorCatalog,
  type CoreErrorCode,
  HansaError,
  toHansaError,
} from '../../core/errors/error.ts';
import type { IssuedSvid } from '../../core/identity/authority/authority.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import type { IssuedJwtSvid } from '../../core/identity/jwt/sign-svid.ts';
import { validateJwtSvid } from '../../core/identity/jwt/svid-validator.ts';
import type { PublicKey } from '../../core/identity/x509/keys.ts';
import { parseChain, validateChain } from '../../core/identity/x509/svid-validator.ts';
import { unpooledCopy } from '../../core/memory/unpooled-copy.ts';
import type { UsableEntry } from '../workload/entries/matching-entries.ts';

/** The part of SiteView that verification uses. */
export interface SiteTrust {
  readonly bundle: Bundle;
  isTainted(id: string): boolean;
}

/** What the site sent, or what a cache kept of it. */
export interface SignedChain {
  /** DER: the leaf, then the intermediates. */
  readonly chain: readonly Uint8Array[];
  /** The id of the authority that signed. */
  readonly authority: string;
}

/** Throws HANSA_UNAVAILABLE, with the reason as its cause. */
export function verifyX509(
  signed: SignedChain,
  entry: UsableEntry,
  publicKey: PublicKey,
  site: SiteTrust,
  nowMs: number,
): IssuedSvid {
  return judged(entry, () => {
    const chain = parseChain(signed.chain);
    const svid = validateChain(chain, { bundleFor: () => site.bundle }, nowMs);
    if (!svid.id.equals(entry.id)) {
      throw wrong(`it names ${excerpt(svid.id.toString())}`);
    }
    if (!svid.leaf.spki.equals(publicKey.spki)) throw wrong('it has another key');
    const issuers = [chain[1]?.fingerprint, svid.authorityFingerprint];
    if (!issuers.includes(signed.authority)) {
      throw wrong(`${excerpt(signed.authority)} did not sign it`);
    }
    if (site.isTainted(signed.authority)) throw wrong('its authority is tainted');
    return {
      id: entry.id,
      chain: signed.chain.map(unpooledCopy),
      notBeforeMs: svid.notBeforeMs,
      // Without the last second, as where the site itself issues.
      notAfterMs: svid.notAfterMs - 999,
      serialHex: svid.serialHex,
      authorityId: signed.authority,
    };
  });
}

/** Throws HANSA_UNAVAILABLE, with the reason as its cause. */
export function verifyJwt(
  token: string,
  entry: UsableEntry,
  audience: readonly string[],
  site: SiteTrust,
  nowMs: number,
): IssuedJwtSvid {
  return judged(entry, () => {
    const bundles = { bundleFor: () => site.bundle };
    const svid = validateJwtSvid(token, audience[0] ?? '', bundles, nowMs);
    if (!svid.id.equals(entry.id)) throw wrong(`it names ${excerpt(svid.id.toString())}`);
    if (
      svid.audience.length !== audience.length ||
      !audience.every((one) => svid.audience.includes(one))
    ) {
      throw wrong('it is for another audience');
    }
    if (site.isTainted(svid.keyId)) throw wrong('its key is tainted');
    const issuedAtMs = Number(svid.claims['iat']) * 1000;
    return {
      id: entry.id,
      token,
      keyId: svid.keyId,
      // The clock of the site may be ahead by a little.
      issuedAtMs: Number.isFinite(issuedAtMs) ? Math.min(issuedAtMs, nowMs) : nowMs,
      expiresAtMs: svid.expiresAtMs,
    };
  });
}

/** The error that stands for a refusal of the site. Its message is for the log of the agent. */
export function refusalError({ code, message }: { code: string; message: string }): HansaError {
  const text = message.length <= maxMessage ? message : `${message.slice(0, maxMessage)}…`;
  const isKnown = Object.hasOwn(errorCatalog, code);
  return new HansaError(isKnown ? (code as CoreErrorCode) : 'HANSA_UNAVAILABLE', text);
}

const maxMessage = 1000;

function judged<T>(entry: UsableEntry, judge: () => T): T {
  try {
    return judge();
  } catch (error) {
    const { message } = toHansaError(error);
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot use the SVID of entry ${entry.name} (${entry.id.toString()}) that the site sent: ${message}`,
      { cause: error },
    );
  }
}

function wrong(why: string): HansaError {
  return new HansaError('HANSA_CERTIFICATE_INVALID', `${why}.`);
}
