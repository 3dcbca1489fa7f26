// One fetch of the keys of a cluster: OpenID Connect Discovery 1.0 §4 at its issuer, or the same
// documents from its API server with the site's credential.

import { excerpt } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { isLocalAddress } from '../../core/identity/tls/local-address.ts';
import type { Transport } from '../../core/identity/tls/transport.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import type { KeySource, StoredCluster } from '../clusters/compile-cluster.ts';
import { type PeerKeys, peerName } from '../peers/peer-keys.ts';
import { type FoundKeys, type JwksKeys, maxJwksBytes, readJwks } from './jwks.ts';
import { failureOf, type KeyFailure, problem } from './key-failure.ts';

/** For both documents of one source. */
const timeoutMs = 10_000;
/** The connection may be silent for half of that time. */
const quietMs = 5_000;
/** That of Google has 1 KB. */
const maxConfigurationBytes = 64 * 1024;
const maxConfigurationValues = 1000;

const configurationPath = '/.well-known/openid-configuration';
const jwksPath = '/openid/v1/jwks';

export interface DiscoveryParts {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Absent where the site has no peers. */
  readonly peerKeys?: PeerKeys | undefined;
}

export type Discovered =
  | (FoundKeys & { readonly from: KeySource['from'] })
  | { readonly failure: KeyFailure };

/** Tries the sources of the cluster in order. Rejects only with the reason of the signal. */
export async function discoverKeys(
  cluster: Pick<StoredCluster, 'issuer' | 'keySources'>,
  parts: DiscoveryParts,
): Promise<Discovered> {
  const failures: KeyFailure[] = [];
  for (const source of cluster.keySources) {
    try {
      return { ...(await askSource(source, cluster.issuer, parts)), from: source.from };
    } catch (caught) {
      parts.signal.throwIfAborted();
      failures.push(failureOf(caught));
    }
  }
  return { failure: combined(failures) };
}

/** The last source is the one that should work: an issuer is often out of reach. */
function combined(failures: readonly KeyFailure[]): KeyFailure {
  const last = failures.at(-1);
  return {
    reason: last?.reason ?? 'NoDiscovery',
    message: failures.map(({ message }) => message).join(' '),
    ...(last?.ends === true ? { ends: true } : {}),
  };
}

async function askSource(
  source: KeySource,
  issuer: string,
  parts: DiscoveryParts,
): Promise<FoundKeys> {
  switch (source.from) {
    case 'issuer':
      return { found: await askIssuer(source, issuer, parts) };
    case 'apiServer':
      return { found: await askAPIServer(source.client, issuer, parts) };
    case 'peer':
      if (parts.peerKeys !== undefined) {
        return parts.peerKeys.fetch(source.peer, issuer, parts.signal);
      }
      throw problem('Unreachable', `The site cannot call ${peerName(source.peer)}.`);
  }
}

async function askIssuer(
  { url, caBundle }: Extract<KeySource, { readonly from: 'issuer' }>,
  issuer: string,
  { transport, clock, signal }: DiscoveryParts,
): Promise<JwksKeys> {
  const endsAtMs = clock.monotonic() + timeoutMs;
  let isLocal = false;
  const get = async (
    from: URL,
    maxBytes: number,
    checkAddress: (address: string) => void,
  ): Promise<Buffer> => {
    const leftMs = leftUntil(endsAtMs, clock);
    const connection = await transport.connect({
      url: from,
      asSite: false,
      timeoutMs: leftMs,
      quietMs: Math.min(quietMs, leftMs),
      signal,
      web: { caBundle, pinnedKeys: [] },
      verify: () => undefined,
      checkAddress,
    });
    try {
      const path = `${from.pathname}${from.search}`;
      const headers = { accept: 'application/json' };
      const answer = await connection.request({ method: 'GET', path, headers }, maxBytes);
      checkStatus(answer.status, answer.headers['location'], `The issuer ${from.host}`);
      return answer.body;
    } finally {
      connection.close();
    }
  };
  const configuration = await get(url, maxConfigurationBytes, (address) => {
    isLocal ||= isLocalAddress(address);
  });
  const { jwksURL } = readConfiguration(configuration, issuer, `The issuer ${url.host}`);
  const keys = await get(jwksURL, maxJwksBytes, (address) => {
    if (!isLocalAddress(address) || isLocal) return;
    // An operator may name an issuer on this machine; an issuer may not send us there.
    throw problem(
      'InvalidConfiguration',
      `The issuer ${url.host} names a jwks_uri that leads to ${address}, a loopback or link-local address.`,
    );
  });
  return readKeys(keys, `The issuer ${url.host}`);
}

/** Takes the keys from the API server itself: its jwks_uri may lead out of reach. */
async function askAPIServer(
  client: KubeClient,
  issuer: string,
  { clock, signal }: DiscoveryParts,
): Promise<JwksKeys> {
  const endsAtMs = clock.monotonic() + timeoutMs;
  const get = async (path: string, maxBytes: number): Promise<Buffer> => {
    const { status, headers, body } = await client.request({
      method: 'GET',
      path,
      headers: { accept: 'application/json, application/jwk-set+json' },
      timeoutMs: leftUntil(endsAtMs, clock),
      maxBytes,
      signal,
      isQuoted: true,
    });
    checkAPIServerStatus(status, path);
    checkStatus(status, headers['location'], 'The API server');
    return body;
  };
  const configuration = await get(configurationPath, maxConfigurationBytes);
  readConfiguration(configuration, issuer, 'The API server');
  return readKeys(await get(jwksPath, maxJwksBytes), 'The API server');
}

/** Whole seconds: a message that repeats in the same words is no change of state. */
function leftUntil(endsAtMs: number, clock: Clock): number {
  return Math.max(Math.ceil((endsAtMs - clock.monotonic()) / 1000), 1) * 1000;
}

function checkAPIServerStatus(status: number, path: string): void {
  switch (status) {
    case 401:
      throw problem(
        'Unauthorized',
        'The API server rejects the credential of this site (HTTP 401). The condition CredentialFresh says what to do.',
      );
    case 403:
      throw problem(
        'Forbidden',
        `The API server forbids GET ${path} (HTTP 403). Bind the ClusterRole system:service-account-issuer-discovery to the identity of this site.`,
      );
    case 404:
      throw problem(
        'NoDiscovery',
        `The API server does not serve ${path} (HTTP 404). Its first --service-account-issuer must be an https URL.`,
      );
    default:
  }
}

function checkStatus(status: number, location: string | undefined, who: string): void {
  if (status === 200) return;
  if (status >= 300 && status < 400) {
    throw problem(
      'Redirected',
      `${who} redirects to ${excerpt(location ?? 'nowhere')} (HTTP ${status}), and the site follows no redirects here. Register the URL that answers itself.`,
    );
  }
  throw problem('UnexpectedStatus', `${who} answers with HTTP status ${status}.`);
}

/** OpenID Connect Discovery 1.0 §4.3: the issuer must be exactly the expected one. */
export function readConfiguration(
  document: Uint8Array,
  issuer: string,
  who: string,
): { readonly jwksURL: URL } {
  const invalid = (why: string): HansaError =>
    problem('InvalidConfiguration', `${who} has an invalid OpenID configuration: ${why}.`);
  let parsed: unknown;
  try {
    parsed = parseBoundedJson(document, maxConfigurationValues);
  } catch {
    throw invalid('it is not JSON, or is too large');
  }
  if (typeof parsed !== 'object' || parsed === null) throw invalid('it is not an object');
  const { issuer: stated, jwks_uri: uri } = parsed as Readonly<Record<string, unknown>>;
  if (typeof stated !== 'string') throw invalid('it names no issuer');
  if (stated !== issuer) {
    throw problem(
      'IssuerMismatch',
      `${who} calls its issuer ${excerpt(stated)}, but the Cluster has ${excerpt(issuer)}. Set spec.issuer to the first --service-account-issuer of the API server.`,
    );
  }
  if (typeof uri !== 'string' || !URL.canParse(uri)) throw invalid('it has no jwks_uri');
  const jwksURL = new URL(uri);
  jwksURL.hash = '';
  if (jwksURL.protocol !== 'https:') throw invalid('its jwks_uri does not begin with https://');
  if (jwksURL.username !== '' || jwksURL.password !== '') {
    throw invalid('its jwks_uri contains a user or a password');
  }
  return { jwksURL };
}

function readKeys(document: Buffer, who: string): JwksKeys {
  try {
    return readJwks(document);
  } catch (caught) {
    throw problem('InvalidKeys', `${who} has an unusable key set: ${(caught as Error).message}.`);
  }
}
