// Who redeems an invitation: a site that proves its name with keys that it brings itself. Pure.

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

/** Who presented what, on a connection to the federation listener. */
export interface Stranger {
  readonly chain: readonly Certificate[];
  readonly address: string | undefined;
}

/** The bundle in `document`, where `chain` proves a site of that trust domain by it; else why not. */
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
    return `the certificate of ${claimed.name} does not fit the bundle that it brought: ${toHansaError(error).message.replace(/\.$/, '')}`;
  }
  return id.equals(siteOf(claimed)) ? bundle : `${id.toString()} is not a site`;
}

/** More authorities than a site has: of such a bundle only the whole is compared with a fingerprint. */
const maxParts = 8;

/**
 * Whether the site proves itself by the authorities that the fingerprint stands for. It may have added
 * an authority since it printed the fingerprint, so a part of its bundle counts as well; keys outside
 * that part prove nothing.
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

/** The authorities of a bundle that a fingerprint stands for; undefined where it stands for others. */
export function partOf(bundle: Bundle, fingerprint: string): Bundle | undefined {
  return parts(bundle).find((part) => fingerprintOf(keyDigests(part)) === fingerprint);
}

/** The whole first. */
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
 * Whether this is the site that redeemed with `document` before. It proves itself by those keys and
 * still has all of them: a thief who put the public keys of another site beside its own does not pass
 * for that site, nor that site for the thief.
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

/** SHA-256, in hex, of the public keys of a bundle that vouch for the site itself; the others prove nothing. */
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

/** Nothing that a stranger says of itself is proven where it is refused: only the name and the reason have it. */
export function refusedActor({ chain, address }: Stranger): AuditActor {
  return {
    user: anonymous.user,
    groups: [],
    via: chain.length === 0 ? 'anonymous' : 'certificate',
    ...(chain[0] === undefined ? {} : { credential: chain[0].serialHex }),
    ...(address === undefined ? {} : { address }),
  };
}

/** Its chain fits the keys under which it is known from now on. */
export function redeemerActor(claimed: TrustDomain, stranger: Stranger): AuditActor {
  return { ...refusedActor(stranger), user: siteOf(claimed).toString() };
}
