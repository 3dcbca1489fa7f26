// A trust bundle as SPIRE's API takes and gives it. Pure.

import { create } from '@bufbuild/protobuf';
import { type Bundle, BundleSchema } from '../../../proto/gen/spire_server_pb.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { Certificate } from '../../core/identity/x509/certificate.ts';
import { spkiOf } from '../../core/identity/x509/keys.ts';
import { otherAuthority } from '../spire/server-bundle.ts';

/** Throws HANSA_BUNDLE_INVALID. SPIRE authenticates a bundle endpoint by X.509 authorities, so one is required. */
export function bundleMessage(document: string, trustDomain: string): Bundle {
  const { bundle, sequence, refreshHintSeconds } = parseSpiffeBundle(
    document,
    TrustDomain.parse(trustDomain),
    'x509',
  );
  const other = otherAuthority(bundle.authorities, trustDomain);
  if (other !== undefined) {
    throw new HansaError('HANSA_BUNDLE_INVALID', `it has an authority of ${other}`);
  }
  return create(BundleSchema, {
    trustDomain,
    x509Authorities: bundle.authorities.map(({ der }) => ({ asn1: der })),
    jwtAuthorities: [...bundle.jwtAuthorities.values()].map(({ keyId, publicKey }) => ({
      keyId,
      publicKey: spkiOf(publicKey),
    })),
    refreshHint: BigInt(refreshHintSeconds ?? 0),
    sequenceNumber: BigInt(sequence ?? 0),
  });
}

/**
 * Why a bundle at the server cannot be the one of this trust domain; undefined where it can. SPIRE stores any bundle
 * that an endpoint serves, also one without authorities.
 */
export function misfitOf(
  { x509Authorities }: Pick<Bundle, 'x509Authorities'>,
  trustDomain: string,
): string | undefined {
  if (x509Authorities.length === 0) return 'the endpoint serves a bundle without X.509 authorities';
  const readable = x509Authorities.flatMap(({ asn1 }) => {
    try {
      return [Certificate.parse(asn1)];
    } catch {
      // SPIRE uses it as Go reads it. It names no trust domain that could be compared.
      return [];
    }
  });
  const other = otherAuthority(readable, trustDomain);
  return other === undefined ? undefined : `the endpoint serves the bundle of ${other}`;
}
