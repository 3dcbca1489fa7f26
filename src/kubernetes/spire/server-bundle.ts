// The trust bundle of a SPIRE server for another cluster: from the ConfigMap that SPIRE publishes its authorities in,
// or from a file that a user exported. Pure.

import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import { Bundle, maxAuthorities } from '../../core/identity/bundle/bundle.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { encodeSpiffeBundle, parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { parseCertificatesPem } from '../../core/identity/x509/pem.ts';

export interface ServerBundle {
  /** As SPIFFE JSON. */
  readonly document: string;
  /** To compare by eye. */
  readonly fingerprint: string;
  readonly authorities: number;
}

/** The key that SPIRE's notifier k8sbundle writes, in PEM. */
export const bundleMapKey = 'bundle.crt';
/** SPIRE replaces the bundle at the first refresh. */
const bootstrapOptions = { sequence: 0, refreshHintSeconds: 300 } as const;

/** Throws HANSA_BUNDLE_INVALID. */
export function bundleOfPem(pem: string, trustDomain: string): ServerBundle {
  const domain = TrustDomain.parse(trustDomain);
  let bundle: Bundle;
  try {
    bundle = new Bundle(domain, parseCertificatesPem(pem, maxAuthorities));
  } catch (error) {
    throw invalid(trustDomain, error instanceof Error ? error.message : 'it is not PEM');
  }
  return serverBundle(bundle, encodeSpiffeBundle(bundle, bootstrapOptions));
}

/** As `spire-server bundle show -format spiffe` writes it. Throws HANSA_BUNDLE_INVALID. */
export function bundleOfDocument(document: string, trustDomain: string): ServerBundle {
  const { bundle } = parseSpiffeBundle(document, TrustDomain.parse(trustDomain), 'x509');
  return serverBundle(bundle, document);
}

function serverBundle(bundle: Bundle, document: string): ServerBundle {
  const { trustDomain, authorities } = bundle;
  if (authorities.length === 0) throw invalid(trustDomain.name, 'it has no X.509 authority');
  const other = otherAuthority(authorities, trustDomain.name);
  if (other !== undefined) {
    throw invalid(
      trustDomain.name,
      `it has an authority of ${other}. Take the bundle of ${trustDomain.name}`,
    );
  }
  return {
    document,
    fingerprint: fingerprintOf(keyDigests(bundle)),
    authorities: authorities.length,
  };
}

/**
 * The SPIFFE ID of the first authority that says itself that it is one of another trust domain. A bundle does not name
 * its trust domain. Authorities without a SPIFFE ID may be of any.
 */
export function otherAuthority(
  authorities: readonly Pick<Certificate, 'extensions'>[],
  trustDomain: string,
): string | undefined {
  return authorities
    .flatMap(({ extensions }) => extensions.subjectAlternativeName?.uris ?? [])
    .find((uri) => uri.startsWith('spiffe://') && uri !== `spiffe://${trustDomain}`)
    ?.slice(0, 300);
}

function invalid(trustDomain: string, why: string): HansaError {
  return new HansaError(
    'HANSA_BUNDLE_INVALID',
    `Cannot use the trust bundle of ${trustDomain}: ${why}.`,
  );
}
