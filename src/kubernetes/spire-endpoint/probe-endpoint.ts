// Calls the bundle endpoint of a SPIRE server from the site, through its exposure, as another cluster would: its
// name must resolve, it must present the right certificate, and it must serve the bundle of this server.

import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { sharesAuthority } from '../../core/identity/bundle/shares-authority.ts';
import { maxBundleBytes, parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import type { Transport } from '../../core/identity/tls/transport.ts';
import { parseCertificatesPem } from '../../core/identity/x509/pem.ts';
import { brokenRule, refuse, type Rule } from '../../core/identity/x509/rules.ts';
import { validateChain } from '../../core/identity/x509/svid-validator.ts';

export interface ProbeTarget {
  readonly host: string;
  /** Default 443: exposures listen there. */
  readonly port?: number;
  readonly profile: 'https_spiffe' | 'https_web';
  /** Of the SPIRE server. */
  readonly trustDomain: string;
  /** The authorities that SPIRE published in its ConfigMap, in PEM. */
  readonly authorities: string | undefined;
}

export interface ProbeResult {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}

export interface ProbeParts {
  readonly transport: Transport;
  readonly clock: Pick<Clock, 'now'>;
  readonly signal: AbortSignal;
}

const timeoutMs = 10_000;
const mostAuthorities = 64;

/** Never rejects, except with the reason of the signal. */
export async function probeEndpoint(target: ProbeTarget, parts: ProbeParts): Promise<ProbeResult> {
  const { host, port = 443, trustDomain } = target;
  const known = authoritiesOf(target);
  if (known === undefined) {
    return {
      status: 'Unknown',
      reason: 'BundleUnknown',
      message: `SPIRE has not published its trust bundle in the cluster yet, so the site cannot tell whether https://${host} serves it.`,
    };
  }
  try {
    const document = await fetchDocument(target, known, new URL(`https://${host}:${port}/`), parts);
    const { bundle } = parseSpiffeBundle(document, TrustDomain.parse(trustDomain));
    if (!sharesAuthority(bundle, known, 'x509')) {
      return failed(
        'OtherBundle',
        `https://${host} serves the bundle of another SPIRE server. Let its name lead to this cluster, or correct spec.federation.exposure.host.`,
      );
    }
    return {
      status: 'True',
      reason: 'Reached',
      message: `The bundle is served at https://${host}.`,
    };
  } catch (error) {
    parts.signal.throwIfAborted();
    return judgeFailure(host, error);
  }
}

async function fetchDocument(
  { profile, trustDomain }: ProbeTarget,
  known: Bundle,
  url: URL,
  { transport, clock, signal }: ProbeParts,
): Promise<Buffer> {
  const expected = SpiffeId.parse(`spiffe://${trustDomain}/spire/server`);
  const connection = await transport.connect({
    url,
    asSite: false,
    timeoutMs,
    signal,
    ...(profile === 'https_web' && { web: { caBundle: undefined, pinnedKeys: [] } }),
    verify: (chain) => {
      if (profile === 'https_web') return;
      const { id } = validateChain(chain, { bundleFor: () => known }, clock.now());
      if (!id.equals(expected)) {
        throw refuse('expected-id', `the endpoint is ${id.toString()}, not ${expected.toString()}`);
      }
    },
  });
  try {
    const { status, body } = await connection.request({ method: 'GET', path: '/' }, maxBundleBytes);
    if (status === 200) return body;
    throw new HansaError('HANSA_UNREACHABLE', `the endpoint answered HTTP status ${status}`);
  } finally {
    connection.close();
  }
}

function authoritiesOf({ authorities, trustDomain }: ProbeTarget): Bundle | undefined {
  if (authorities === undefined) return undefined;
  try {
    const found = parseCertificatesPem(authorities, mostAuthorities);
    return found.length === 0 ? undefined : new Bundle(TrustDomain.parse(trustDomain), found);
  } catch {
    return undefined;
  }
}

const failed = (reason: string, message: string): ProbeResult => ({
  status: 'False',
  reason,
  message,
});

/** What can be wrong with a certificate that is often wrong in that way, and what to do. */
const certificateFaults: Readonly<
  Partial<Record<Rule, readonly [reason: string, advice: string]>>
> = {
  expired: [
    'CertificateExpired',
    'Renew it. With https_spiffe, SPIRE does that by itself: see the log of its server, and compare the clocks.',
  ],
  'not-yet-valid': [
    'CertificateNotYetValid',
    'Compare the clocks of the cluster and of this site.',
  ],
  'server-name': [
    'CertificateForOtherName',
    'Use a certificate with this name, or correct spec.federation.exposure.host.',
  ],
  'expected-id': [
    'OtherIdentity',
    'Another workload answers there: let the exposure lead to the SPIRE server.',
  ],
};

function judgeFailure(host: string, error: unknown): ProbeResult {
  const why = error instanceof Error ? error.message : String(error);
  const rule = brokenRule(error);
  if (rule === 'web-authority') {
    return {
      status: 'Unknown',
      reason: 'AuthorityUnknown',
      message: `https://${host} answers with a certificate of an authority that this site does not know. Other clusters reach it only if they trust that authority.`,
    };
  }
  if (rule !== undefined) {
    const [reason, advice] = certificateFaults[rule] ?? [
      'CertificateRefused',
      'The exposure must pass TLS through to SPIRE (https_spiffe), or the certificate must be for this name.',
    ];
    return failed(
      reason,
      `https://${host} answers with a certificate that others refuse. ${why} ${advice}`,
    );
  }
  if (error instanceof HansaError && error.code === 'HANSA_UNREACHABLE') {
    return failed(
      'Unreachable',
      `The site cannot reach https://${host}: ${why} Check its DNS record, the exposure, and firewalls.`,
    );
  }
  return failed(
    'NoBundle',
    `https://${host} serves no trust bundle. ${why} Something else answers there: check the exposure, and the DNS record.`,
  );
}
