// The answer of a site to a peer that asks for the trust bundle of a SPIRE server: type, size limit and a
// strict parser.

import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle, parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { mostDocumentLength, type ReceivedBundle } from '../../core/spire-bundles/records.ts';
import { malformed, Message } from '../message-reader.ts';

/** A bundle of the largest size, with its quotes escaped. In practice it has a few authorities of 1 kB each. */
export const maxClusterBundleBytes = 2 * mostDocumentLength;

/** SPIRE replaces the bundle at the first refresh. */
const bootstrapOptions = { sequence: 0, refreshHintSeconds: 300 } as const;

/**
 * Keeps only the X.509 authorities, and writes them again: nothing else of the text of a peer is stored. Throws
 * where the peer answers for another cluster or trust domain than it was asked about.
 */
export function parseClusterBundle(
  body: Uint8Array,
  asked: Pick<ReceivedBundle, 'cluster' | 'trustDomain'>,
): ReceivedBundle {
  const message = new Message(body);
  const cluster = message.text('cluster', /^[^\s]{1,253}$/);
  const trustDomain = message.trustDomain('trustDomain');
  if (cluster !== asked.cluster || trustDomain.name !== asked.trustDomain) {
    throw malformed('it is about another cluster or trust domain than this site asked about');
  }
  // Throws HANSA_BUNDLE_INVALID. The bundle of a SPIRE server is for X.509.
  const { bundle } = parseSpiffeBundle(message.text('bundle', /^\s*\{/), trustDomain, 'x509');
  if (bundle.authorities.length === 0) throw malformed('the bundle has no X.509 authority');
  const document = encodeSpiffeBundle(
    new Bundle(trustDomain, bundle.authorities),
    bootstrapOptions,
  );
  if (document.length > mostDocumentLength) throw malformed('the bundle is too large');
  return { cluster, trustDomain: trustDomain.name, document };
}
