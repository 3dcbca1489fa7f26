// The item of the agents' state that describes the site itself: its bundle, the authorities whose SVIDs
// must be replaced, and how long an agent may decide without the site. The site writes it, and the agent
// reads it. Pure.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { SiteAuthority } from '../../core/identity/authority/authority.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import {
  encodeSpiffeBundle,
  maxBundleBytes,
  parseSpiffeBundle,
} from '../../core/identity/bundle/spiffe-bundle.ts';

export const siteCollection = 'trust.site';
export const siteName = 'site';

export interface SiteItem {
  /** With the certificates that may sign leaves of this site. */
  readonly bundle: Bundle;
  /** The ids of tainted authorities, X.509 and JWT. */
  readonly tainted: ReadonlySet<string>;
  readonly maxOfflineSeconds: number;
}

/** The same state gives the same bytes. */
export function encodeSiteItem(
  { bundle, authorities }: Pick<SiteAuthority, 'bundle' | 'authorities'>,
  maxOfflineSeconds: number,
): Buffer {
  const tainted = authorities.filter(({ state }) => state === 'tainted').map(({ id }) => id);
  return Buffer.from(
    JSON.stringify({
      // An agent does not fetch it, so it needs neither a sequence nor a hint.
      bundle: encodeSpiffeBundle(bundle, { sequence: 0, refreshHintSeconds: 0 }),
      issuers: bundle.issuers === undefined ? undefined : [...bundle.issuers].toSorted(),
      tainted: tainted.toSorted(),
      maxOfflineSeconds,
    }),
  );
}

/** A bundle, and more ids than a site can have authorities. */
const maxBytes = maxBundleBytes + 64 * 1024;

/** Throws HANSA_BAD_REQUEST or HANSA_BUNDLE_INVALID. */
export function parseSiteItem(bytes: Buffer, trustDomain: TrustDomain): SiteItem {
  if (bytes.byteLength > maxBytes) throw refuse(`it has ${bytes.byteLength} bytes`);
  const { bundle, issuers, tainted, maxOfflineSeconds } = parseObject(bytes);
  if (typeof bundle !== 'string') throw refuse('it has no bundle');
  if (!isTexts(tainted)) throw refuse('tainted is not a list of strings');
  if (issuers !== undefined && !isTexts(issuers)) throw refuse('issuers is not a list of strings');
  if (!Number.isSafeInteger(maxOfflineSeconds) || (maxOfflineSeconds as number) < 0) {
    throw refuse('maxOfflineSeconds is not a whole number');
  }
  const read = parseSpiffeBundle(bundle, trustDomain, 'x509').bundle;
  return {
    bundle: new Bundle(
      trustDomain,
      read.authorities,
      read.jwtAuthorities.values(),
      issuers && new Set(issuers),
    ),
    tainted: new Set(tainted),
    maxOfflineSeconds: maxOfflineSeconds as number,
  };
}

function parseObject(bytes: Buffer): Readonly<Record<string, unknown>> {
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString('utf8'));
  } catch {
    throw refuse('it is not JSON');
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw refuse('it is not a JSON object');
  }
  return json as Readonly<Record<string, unknown>>;
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

function refuse(why: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', `Cannot read the description of the site: ${why}.`);
}
