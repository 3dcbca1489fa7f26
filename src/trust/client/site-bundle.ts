// Fetches from a running site its own bundle, or the bundle that it holds of another trust domain.

import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { parseSpiffeBundle, type SpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { heldDocument } from '../federation/federated-bundles.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { OwnBundle } from '../federation/bundle-endpoint.ts';
import { trustPaths } from '../paths.ts';

/** The fingerprint of the bundle of this site. */
export async function ownFingerprint(client: SiteClient): Promise<string> {
  return fingerprintOf(keyDigests((await bundleOf(client, undefined)).read.bundle));
}

/** Read again here: what is printed as a bundle is one. */
export async function bundleOf(
  client: SiteClient,
  name: string | undefined,
): Promise<{ readonly document: string; readonly read: SpiffeBundle }> {
  if (name === undefined) {
    const own = (await client.request({ path: trustPaths.bundle })).body as OwnBundle;
    const read = parseSpiffeBundle(own.bundle, TrustDomain.parse(own.trustDomain));
    return { document: own.bundle, read };
  }
  const trustDomain = TrustDomain.parse(name);
  const federation = (await client.get(spiffeFederationKind, name)) as SPIFFEFederation;
  const document = heldDocument(federation);
  if (document === undefined) {
    throw new HansaError('HANSA_NOT_FOUND', `This site holds no bundle of ${name} yet.`);
  }
  return { document, read: parseSpiffeBundle(document, trustDomain) };
}
