// Verifies that a server is the site of one trust domain: its certificate has the SPIFFE ID of the site,
// and chains to the bundle of that trust domain.

import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { HansaError } from '../../errors/error.ts';
import type { BundleSource } from '../bundle/bundle.ts';
import type { Certificate } from '../x509/certificate.ts';
import { validateChain, type ValidatedSvid } from '../x509/svid-validator.ts';

/** Throws HANSA_PEER_UNTRUSTED for another SPIFFE ID, and HANSA_CERTIFICATE_INVALID for an invalid chain. */
export function verifySite(
  trustDomain: TrustDomain,
  chain: readonly Certificate[],
  bundles: BundleSource,
  nowMs: number,
): ValidatedSvid {
  const expected = SpiffeId.of(trustDomain, 'hansa', 'site');
  const uris = chain[0]?.extensions.subjectAlternativeName?.uris ?? [];
  if (!uris.includes(expected.toString())) {
    throw new HansaError(
      'HANSA_PEER_UNTRUSTED',
      `the TLS certificate is for ${uris[0] ?? 'no SPIFFE ID'}, expected ${expected.toString()}`,
    );
  }
  return validateChain(chain, bundles, nowMs);
}
