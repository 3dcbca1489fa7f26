// How `hansa join` verifies a site before it sends anything: with a bundle file, or with the fingerprint
// of the bundle that the site publishes.

import { readFileSync } from 'node:fs';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import { Bundle, maxAuthorities } from '../../core/identity/bundle/bundle.ts';
import { parseCertificatesPem } from '../../core/identity/x509/pem.ts';
import { refreshAfterSeconds } from '../../api/values/refresh-hint.ts';
import { parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import type { JoinServer } from './join-client.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { Io } from '../../core/plane/command-kit.ts';

export interface ServerOptions {
  readonly server?: string;
  readonly trustDomain?: string;
  readonly bundle?: string;
  readonly fingerprint?: string;
}

export async function findServer(
  io: Pick<Io, 'clock'>,
  options: ServerOptions,
): Promise<JoinServer> {
  const url = parseServer(options.server);
  if (options.trustDomain === undefined) {
    throw usageError('--trust-domain is required: the trust domain of the site.');
  }
  const trustDomain = TrustDomain.parse(options.trustDomain);
  const { bundle, fingerprint } = options;
  if (bundle !== undefined && fingerprint === undefined) {
    return { url, bundle: readBundle(readGiven(bundle, '--bundle'), trustDomain, bundle) };
  }
  if (fingerprint !== undefined && bundle === undefined) {
    return { url, bundle: await fetchPinned(io, url, trustDomain, fingerprint) };
  }
  throw usageError(
    'To verify the site, set --bundle with its bundle (hansa trust bundle show), or --fingerprint (hansa trust bundle fingerprint).',
  );
}

export function parseServer(text: string | undefined): URL {
  const url = text !== undefined && URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') {
    throw usageError(
      `--server is ${JSON.stringify(text ?? '')}, but must be the https URL of the federation listener, for example https://lubeck.example:8443.`,
    );
  }
  return url;
}

export function readGiven(path: string, flag: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw usageError(`Cannot read ${path} (${flag}): ${fileProblem(error)}.`);
  }
}

/** A SPIFFE bundle, or PEM. */
export function readBundle(text: string, trustDomain: TrustDomain, path: string): Bundle {
  if (text.trimStart().startsWith('{')) return parseSpiffeBundle(text, trustDomain, 'x509').bundle;
  const authorities = parseCertificatesPem(text, maxAuthorities);
  if (authorities.length === 0) {
    throw usageError(`${path} contains no bundle. Use a SPIFFE bundle or PEM.`);
  }
  return new Bundle(trustDomain, authorities);
}

/** Fetches the current bundle of the site, verified with the earlier one, and the time of the next fetch. */
export async function refreshBundle(
  io: Pick<Io, 'clock' | 'interruption'>,
  { url, bundle }: JoinServer,
): Promise<{ readonly bundle: Bundle; readonly againAfterMs: number }> {
  const { trustDomain } = bundle;
  const { fetchBundle } = await import('./fetch-bundle.ts');
  const { asNobody, onlyBundle } = await import('./presented-bundle.ts');
  const { document } = await fetchBundle({
    url: new URL('/', url),
    profile: {
      kind: 'https_spiffe',
      endpoint: SpiffeId.of(trustDomain, 'hansa', 'site'),
      bundles: onlyBundle(bundle),
    },
    validator: undefined,
    transport: asNobody(io),
    clock: io.clock,
    signal: io.interruption(),
  });
  const read = parseSpiffeBundle(document ?? '', trustDomain, 'x509');
  return {
    bundle: read.bundle,
    againAfterMs: refreshAfterSeconds(read.refreshHintSeconds) * 1000,
  };
}

/** Accepts the published bundle if it has the expected fingerprint and verifies the server that sent it. */
async function fetchPinned(
  io: Pick<Io, 'clock'>,
  url: URL,
  trustDomain: TrustDomain,
  fingerprint: string,
): Promise<Bundle> {
  const { fetchPresented } = await import('./presented-bundle.ts');
  const presented = await fetchPresented(io, new URL('/', url), trustDomain);
  if (presented.fingerprint !== fingerprint.trim().toLowerCase()) {
    throw new HansaError(
      'HANSA_PEER_UNTRUSTED',
      `Cannot join at ${url.origin}: its bundle has the fingerprint ${presented.fingerprint}. Compare it with its operator. If the operator sees another one, the connection is intercepted. A rotation changes the fingerprint too.`,
    );
  }
  const id = presented.answeredBy();
  if (!id.equals(SpiffeId.of(trustDomain, 'hansa', 'site'))) {
    throw new HansaError(
      'HANSA_PEER_UNTRUSTED',
      `Cannot join at ${url.origin}: the server is ${id.toString()}, which is not a site.`,
    );
  }
  return presented.bundle;
}
