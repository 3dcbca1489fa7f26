// How a site asks the bundle endpoint of a federation, and judges what comes: by whom it must be
// answered, and what the bundle must be. The sync does so when it is time, and `hansa doctor --peer`
// to tell where it fails.

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
  /** Of the document that is held; undefined to get one in any case. */
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
  // It may have as many keys as are accepted: what follows finds them read.
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
      // Quarantine is for others: the endpoint is still believed by what is held.
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

/** Without an X.509 authority, the next certificate of an endpoint of its own could not be verified. */
function neededOf({ metadata, spec }: SPIFFEFederation): 'any' | 'x509' {
  const endpoint = spec.bundleSource.httpsSpiffe?.endpointSpiffeID;
  return endpoint?.startsWith(`spiffe://${metadata.name}/`) === true ? 'x509' : 'any';
}

/** Quarantined, stale or not; undefined where there is none, or it cannot be read. */
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

/** Of what the endpoint itself gave. A bootstrap may be written by hand, and proves nothing about it. */
function seenSequence(federation: SPIFFEFederation): number | undefined {
  const { status } = federation;
  return status?.source === sourceOf(federation) && status.source !== 'static'
    ? status.sequence
    : undefined;
}
