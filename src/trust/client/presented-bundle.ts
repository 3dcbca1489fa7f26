// Fetches the bundle of an endpoint that is not trusted yet, with the fingerprint that operators compare
// over a trusted channel. It then verifies the endpoint against that bundle: an attacker could relay the
// real bundle, but not present a certificate of it.

import type { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Bundle, BundleSource } from '../../core/identity/bundle/bundle.ts';
import { maxBundleBytes, parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { validateChain } from '../../core/identity/x509/svid-validator.ts';
import { TlsTransport } from '../../core/identity/tls/tls-transport.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import type { Io } from '../../core/plane/command-kit.ts';

const fetchMs = 10_000;

export interface PresentedBundle {
  readonly document: string;
  readonly bundle: Bundle;
  readonly fingerprint: string;
  /** The identity of the server. Throws HANSA_CERTIFICATE_INVALID if the bundle does not verify it. */
  answeredBy(): SpiffeId;
}

/** The result is untrusted until the operator has compared its fingerprint. */
export async function fetchPresented(
  io: Pick<Io, 'clock'>,
  url: URL,
  trustDomain: TrustDomain,
): Promise<PresentedBundle> {
  const connection = await asNobody(io).connect({
    url,
    verify: () => undefined,
    asSite: false,
    timeoutMs: fetchMs,
  });
  try {
    const path = `${url.pathname}${url.search}`;
    const { status, body } = await connection.request({ method: 'GET', path }, maxBundleBytes);
    if (status !== 200) {
      throw new HansaError(
        'HANSA_UNREACHABLE',
        `Cannot fetch the bundle of ${url.origin}: it answered with HTTP status ${status}. Check that this URL is its bundle endpoint.`,
      );
    }
    const { peerChain } = connection;
    const { bundle } = parseSpiffeBundle(body, trustDomain, 'x509');
    return {
      document: body.toString('utf8'),
      bundle,
      fingerprint: fingerprintOf(keyDigests(bundle)),
      answeredBy: () => validateChain(peerChain, onlyBundle(bundle), io.clock.now()).id,
    };
  } finally {
    connection.close();
  }
}

export function asNobody({ clock }: Pick<Io, 'clock'>): TlsTransport {
  return new TlsTransport({
    clock,
    credential: () => {
      throw new TypeError('a bundle is fetched as nobody');
    },
  });
}

export function onlyBundle(bundle: Bundle): BundleSource {
  return { bundleFor: (asked) => (asked.equals(bundle.trustDomain) ? bundle : undefined) };
}
