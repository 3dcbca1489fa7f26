// A trust bundle in the SPIFFE format as SPIRE's API takes it. Pure.

import { create } from '@bufbuild/protobuf';
import { type Bundle, BundleSchema } from '../../../proto/gen/spire_server_pb.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { spkiOf } from '../../core/identity/x509/keys.ts';

/** Throws HANSA_BUNDLE_INVALID. SPIRE authenticates a bundle endpoint by X.509 authorities, so one is required. */
export function bundleMessage(document: string, trustDomain: string): Bundle {
  const { bundle, sequence, refreshHintSeconds } = parseSpiffeBundle(
    document,
    TrustDomain.parse(trustDomain),
    'x509',
  );
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
