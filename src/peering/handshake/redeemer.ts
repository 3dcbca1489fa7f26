// Verifies the site that redeems an invitation, with the bundle that this site sends itself. Pure.

import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { anonymous } from '../../core/access/identity.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import { toHansaError } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { validateChain } from '../../core/identity/x509/svid-validator.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';

/** The certificate chain and address of a caller of the federation listener. */
export interface Stranger {
  readonly chain: readonly Certificate[];
  readonly address: string | undefined;
}

/** The bundle in `document`, if it verifies `chain` as the site of that trust domain. Otherwise the reason. */
export function provenBundle(
  claimed: TrustDomain,
  document: string,
  { chain }: Stranger,
  nowMs: number,
): Bundle | string {
  let bundle: Bundle;
  let id: SpiffeId;
  try {
    ({ bundle } = parseSpiffeBundle(document, claimed, 'x509'));
    id = verify(bundle, chain, nowMs);
  } catch (error) {
    return `the bundle that ${claimed.name} sent does not verify its certificate: ${toHansaError(error).message.replace(/\.$/, '')}`;
  }
  return id.equals(siteOf(claimed)) ? bundle : `${id.toString()} is not a site`;
}

/** A site has fewer authorities. A larger bundle is compared with a fingerprint only as a whole. */
const maxParts = 8;

/**
 * Whether the authorities of this fingerprint verify the site's certificate. The site may have added
 * an authority since it showed the fingerprint, so a subset of its bundle may match. Keys outside that
 * subset do not count.
 */
export function isBoundTo(
  fingerprint: string,
  bundle: Bundle,
  { chain }: Stranger,
  nowMs: number,
): boolean {
  const part = partOf(bundle, fingerprint);
  return part !== undefined && proves(part, chain, nowMs);
}

/** The subset of a bundle that has this fingerprint, or undefined. */
export function partOf(bundle: Bundle, fingerprint: string): Bundle | undefined {
  return parts(bundle).find((part) => fingerprintOf(keyDigests(part)) === fingerprint);
}

/** All subsets, the whole bundle first. */
function parts(bundle: Bundle): readonly Bundle[] {
  const { authorities, trustDomain } = bundle;
  if (authorities.length > maxParts) return [bundle];
  const count = 2 ** authorities.length - 1;
  return Array.from({ length: count }, (_, at) => {
    const chosen = authorities.filter((_each, index) => ((count - at) & (1 << index)) !== 0);
    return new Bundle(trustDomain, chosen);
  });
}

/**
 * Whether this is the site that redeemed with `document` before. The old keys verify its certificate,
 * and it still has all of them. So a thief that adds another site's public keys to its own bundle does
 * not pass for that site, nor that site for the thief.
 */
export function isSameRedeemer(
  claimed: TrustDomain,
  document: string,
  bundle: Bundle,
  { chain }: Stranger,
  nowMs: number,
): boolean {
  const first = parseSpiffeBundle(document, claimed).bundle;
  const known = new Set(bundle.authorities.map(({ spki }) => spki.toString('hex')));
  return (
    first.authorities.every(({ spki }) => known.has(spki.toString('hex'))) &&
    proves(first, chain, nowMs)
  );
}

/** SHA-256, in hex, of the public keys of the bundle that verify the site's certificate. */
export function provenKeys(bundle: Bundle, { chain }: Stranger, nowMs: number): readonly string[] {
  const { trustDomain, authorities } = bundle;
  return authorities
    .map((authority) => new Bundle(trustDomain, [authority]))
    .filter((part) => proves(part, chain, nowMs))
    .flatMap((part) => keyDigests(part).map((key) => key.toString('hex')));
}

function proves(bundle: Bundle, chain: readonly Certificate[], nowMs: number): boolean {
  try {
    return verify(bundle, chain, nowMs).equals(siteOf(bundle.trustDomain));
  } catch {
    return false;
  }
}

function verify(bundle: Bundle, chain: readonly Certificate[], nowMs: number): SpiffeId {
  const bundleFor = (domain: TrustDomain): Bundle | undefined =>
    domain.equals(bundle.trustDomain) ? bundle : undefined;
  return validateChain(chain, { bundleFor }, nowMs).id;
}

function siteOf(trustDomain: TrustDomain): SpiffeId {
  return SpiffeId.of(trustDomain, 'hansa', 'site');
}

/** The audit actor of a denied stranger. Its claims are not proven, so they appear only in name and reason. */
export function refusedActor({ chain, address }: Stranger): AuditActor {
  return {
    user: anonymous.user,
    groups: [],
    via: chain.length === 0 ? 'anonymous' : 'certificate',
    ...(chain[0] === undefined ? {} : { credential: chain[0].serialHex }),
    ...(address === undefined ? {} : { address }),
  };
}

/** The audit actor of a verified redeemer. */
export function redeemerActor(claimed: TrustDomain, stranger: Stranger): AuditActor {
  return { ...refusedActor(stranger), user: siteOf(claimed).toString() };
}
