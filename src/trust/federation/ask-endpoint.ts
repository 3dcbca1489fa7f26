// Fetches a bundle from the endpoint of a federation: authenticates the endpoint and checks the bundle.
// The federation controller and `hansa doctor --peer` use it.

import type { SPIFFEFederation } from '../../api/kinds/spiffe-federation.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import { sourceOf } from '../../api/bundle-life.ts';
import {
  parseSpiffeBundle,
  parseSpiffeBundleInSteps,
  type SpiffeBundle,
} from '../../core/identity/bundle/spiffe-bundle.ts';
import { heldDocument } from './federated-bundles.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { acceptBundle } from './accept-bundle.ts';
import {
  fetchBundle,
  type FetchProgress,
  type Profile,
  type Validator,
} from '../client/fetch-bundle.ts';

export type EndpointParts = Pick<PlaneContext, 'clock' | 'transport' | 'heldBundles' | 'authority'>;

export interface Question {
  /** The ETag of the held document; undefined to always get a document. */
  readonly validator: Validator | undefined;
  readonly acceptRollback: boolean;
  readonly signal: AbortSignal;
  readonly progress?: FetchProgress;
}

export interface Answer {
  readonly document: string;
  readonly accepted: SpiffeBundle;
  readonly validator: Validator | undefined;
}

/** Rejects with a HansaError that `failureOf` knows. */
export async function askEndpoint(
  parts: EndpointParts,
  federation: SPIFFEFederation,
  { validator, acceptRollback, signal, progress }: Question,
): Promise<Answer> {
  const url = endpointOf(federation);
  if (url === undefined) throw new Error('the federation has no endpoint');
  const fetched = await fetchBundle({
    url,
    profile: profileOf(parts, federation),
    validator,
    transport: parts.transport,
    clock: parts.clock,
    signal,
    ...(progress && { progress }),
  });
  const document = fetched.document ?? federation.status?.bundle ?? '';
  const sequence = acceptRollback ? undefined : seenSequence(federation);
  const trustDomain = TrustDomain.parse(federation.metadata.name);
  // A bundle may have many keys. Parsing them here keeps the next step short.
  await parseSpiffeBundleInSteps(document, trustDomain, neededOf(federation));
  const accepted = acceptFor(parts, federation, document, sequence);
  return { document: document.toString(), accepted, validator: fetched.validator };
}

/** Undefined for a static source. */
export function endpointOf({ spec }: SPIFFEFederation): URL | undefined {
  const { httpsSpiffe, httpsWeb } = spec.bundleSource;
  const url = (httpsSpiffe ?? httpsWeb)?.bundleEndpointURL;
  return url === undefined ? undefined : new URL(url);
}

function profileOf({ heldBundles }: EndpointParts, federation: SPIFFEFederation): Profile {
  const { httpsSpiffe, httpsWeb } = federation.spec.bundleSource;
  if (httpsWeb !== undefined) {
    const { caBundle, pinnedKeys = [] } = httpsWeb;
    return { kind: 'https_web', rules: { caBundle, pinnedKeys } };
  }
  const bundles: BundleSource = {
    bundleFor: (asked) => {
      const held = heldBundles.bundleFor(asked);
      if (held !== undefined || asked.name !== federation.metadata.name) return held;
      // Quarantine affects workloads. The site still verifies the endpoint against the held bundle.
      return readHeld(federation, heldDocument(federation))?.bundle;
    },
  };
  const endpoint = SpiffeId.parse(httpsSpiffe?.endpointSpiffeID ?? '');
  return { kind: 'https_spiffe', endpoint, bundles };
}

export function acceptFor(
  { authority, clock }: Pick<EndpointParts, 'authority' | 'clock'>,
  federation: SPIFFEFederation,
  document: string | Uint8Array,
  heldSequence: number | undefined,
): SpiffeBundle {
  return acceptBundle({
    document,
    trustDomain: TrustDomain.parse(federation.metadata.name),
    own: authority.bundle,
    heldSequence,
    nowMs: clock.now(),
    needs: neededOf(federation),
  });
}

/** Without an X.509 authority, a self-serving endpoint could not be verified at the next fetch. */
function neededOf({ metadata, spec }: SPIFFEFederation): 'any' | 'x509' {
  const endpoint = spec.bundleSource.httpsSpiffe?.endpointSpiffeID;
  return endpoint?.startsWith(`spiffe://${metadata.name}/`) === true ? 'x509' : 'any';
}

/** The held bundle, even if it is quarantined or stale; undefined if it is missing or unreadable. */
export function readHeld(
  { metadata }: SPIFFEFederation,
  document: string | undefined,
): SpiffeBundle | undefined {
  if (document === undefined) return undefined;
  try {
    return parseSpiffeBundle(document, TrustDomain.parse(metadata.name));
  } catch {
    return undefined;
  }
}

/** The sequence of the last fetched bundle. A bootstrap may be hand-written, so its sequence is ignored. */
function seenSequence(federation: SPIFFEFederation): number | undefined {
  const { status } = federation;
  return status?.source === sourceOf(federation) && status.source !== 'static'
    ? status.sequence
    : undefined;
}
