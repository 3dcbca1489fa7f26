// One fetch from a bundle endpoint by https_spiffe (SPIFFE Federation §5.2.2): who must answer is
// known beforehand, and is verified before the request is sent.

import type { SpiffeId } from '../api/spiffe-id.ts';
import type { Clock } from '../core/clock/clock.ts';
import { type ErrorCode, HansaError, toHansaError } from '../core/errors/error.ts';
import type { BundleSource } from '../core/identity/bundle.ts';
import { refuse } from '../core/identity/rules.ts';
import { maxBundleBytes } from '../core/identity/spiffe-bundle.ts';
import { validateChain } from '../core/identity/svid-validator.ts';
import type { Transport } from '../core/identity/transport.ts';
import { type BundleProblem, bundleProblem } from './accept-bundle.ts';

/** A bundle is a few KB: whoever needs longer has a problem, and is asked again later. */
const fetchTimeoutMs = 10_000;

export interface BundleFetch {
  readonly url: URL;
  readonly endpoint: SpiffeId;
  /** By which bundle the endpoint is believed. */
  readonly bundles: BundleSource;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The document as it came. Rejects with a HansaError that `failureClass` knows. */
export async function fetchBundle(fetch: BundleFetch): Promise<Buffer> {
  const { url, endpoint, bundles, transport, clock, signal } = fetch;
  const connection = await transport.connect({
    url,
    // The endpoint is public; to show who asks would only tell others whom we federate with.
    asSite: false,
    timeoutMs: fetchTimeoutMs,
    signal,
    verify: (chain) => {
      const { id } = validateChain(chain, bundles, clock.now());
      if (!id.equals(endpoint)) {
        throw refuse(
          'expected-id',
          `the endpoint is ${id.toString()}, and ${endpoint.toString()} was expected`,
        );
      }
    },
  });
  try {
    const { status, body } = await connection.request(
      { method: 'GET', path: `${url.pathname}${url.search}` },
      maxBundleBytes,
    );
    if (status !== 200) {
      // Redirects too: whom to believe at another place, nobody said.
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot fetch the bundle from ${url.host}: it answered with HTTP status ${status}.`,
      );
    }
    return body;
  } finally {
    connection.close();
  }
}

export type FailureClass =
  | 'dns'
  | 'connect'
  | 'unreachable'
  | 'identity'
  | 'http'
  | 'size'
  | BundleProblem
  | 'internal';

export interface Failure {
  readonly class: FailureClass;
  readonly message: string;
  readonly code: ErrorCode;
}

/** Somebody answered, and was not believed. */
export function isRefusal(failure: Failure): boolean {
  return !['dns', 'connect', 'unreachable', 'http', 'internal'].includes(failure.class);
}

/** Why a sync failed, for its status; a fault of ours says no more than that it is one. */
export function failureOf(caught: unknown): Failure {
  const error = toHansaError(caught);
  const message = error.message.slice(0, 1024);
  return { class: failureClass(error), message, code: error.code };
}

function failureClass(error: HansaError): FailureClass {
  switch (error.code) {
    case 'HANSA_UNREACHABLE':
      return unreachableClass((error.cause as NodeJS.ErrnoException | undefined)?.code);
    case 'HANSA_TIMEOUT':
      return 'unreachable';
    case 'HANSA_CERTIFICATE_INVALID':
      return 'identity';
    case 'HANSA_UNAVAILABLE':
      return 'http';
    case 'HANSA_TOO_LARGE':
      return 'size';
    case 'HANSA_BUNDLE_INVALID':
      return bundleProblem(error);
    default:
      return 'internal';
  }
}

function unreachableClass(code: string | undefined): FailureClass {
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'dns';
  if (code !== undefined && /^E(?:CONNREFUSED|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/.test(code)) {
    return 'connect';
  }
  return 'unreachable';
}
