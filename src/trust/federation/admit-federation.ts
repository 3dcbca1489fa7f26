// Rules for a SPIFFEFederation that its schema cannot express. The site checks them before it stores
// the federation, so that its author sees the error. Pure.

import { spiffeFederationKind, type SPIFFEFederation } from '../../api/kinds/spiffe-federation.ts';
import { group, type Resource } from '../../api/object.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { webAuthorities } from '../../core/identity/tls/web-transport.ts';
import { acceptBundle } from './accept-bundle.ts';

/**
 * Throws HANSA_INVALID. `own` is the bundle of this site. A bundle that `live` has already is not
 * judged again: one that expired since must not keep a federation from being quarantined.
 */
export function admitFederation(
  federation: Pick<Resource, 'metadata' | 'spec'>,
  own: Bundle,
  nowMs: number,
  live?: Pick<Resource, 'spec'>,
): void {
  const { name } = federation.metadata;
  const refuse = (field: string, why: string): never => {
    const message = `Invalid value: ${why}`;
    throw new HansaError(
      'HANSA_INVALID',
      `${spiffeFederationKind.kind}.${group} "${name}" is invalid: ${field}: ${message}`,
      {
        details: {
          group,
          kind: spiffeFederationKind.kind,
          name,
          causes: [{ reason: 'FieldValueInvalid', message, field }],
        },
      },
    );
  };
  const because = (caught: unknown): string =>
    caught instanceof HansaError ? caught.message : 'it cannot be read';
  const trustDomain = TrustDomain.parse(name);
  if (trustDomain.equals(own.trustDomain)) {
    refuse('metadata.name', `${name} is the trust domain of this site: it cannot federate itself`);
  }
  const { httpsSpiffe, httpsWeb, static: fixed } = sourcesOf(federation);
  const before = (live?.spec as SPIFFEFederation['spec'] | undefined)?.bundleSource;
  const checkBundle = (
    field: string,
    document: string,
    known: string | undefined,
    needs: 'any' | 'x509',
  ): void => {
    if (document === known) return;
    try {
      acceptBundle({ document, trustDomain, own, heldSequence: undefined, nowMs, needs });
    } catch (caught) {
      refuse(field, because(caught));
    }
  };
  if (fixed !== undefined) {
    checkBundle('spec.bundleSource.static.bundle', fixed.bundle, before?.static?.bundle, 'any');
  }
  const checkURL = (at: string, url: string): void => {
    if (!isEndpointURL(url)) {
      refuse(`${at}.bundleEndpointURL`, 'it must be an https URL without user and password');
    }
  };
  if (httpsWeb !== undefined) {
    const at = 'spec.bundleSource.httpsWeb';
    checkURL(at, httpsWeb.bundleEndpointURL);
    try {
      if (httpsWeb.caBundle !== undefined) webAuthorities(httpsWeb.caBundle);
    } catch (caught) {
      refuse(`${at}.caBundle`, (caught as Error).message);
    }
  }
  if (httpsSpiffe === undefined) return;
  const at = 'spec.bundleSource.httpsSpiffe';
  checkURL(at, httpsSpiffe.bundleEndpointURL);
  let endpoint: SpiffeId | undefined;
  try {
    endpoint = SpiffeId.parse(httpsSpiffe.endpointSpiffeID ?? '');
  } catch (caught) {
    refuse(`${at}.endpointSpiffeID`, because(caught));
  }
  checkBundle(
    `${at}.bundleBootstrap`,
    httpsSpiffe.bundleBootstrap,
    before?.httpsSpiffe?.bundleBootstrap,
    endpoint?.trustDomain.equals(trustDomain) === true ? 'x509' : 'any',
  );
}

function sourcesOf({ spec }: Pick<Resource, 'spec'>): SPIFFEFederation['spec']['bundleSource'] {
  return (spec as SPIFFEFederation['spec']).bundleSource;
}

function isEndpointURL(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  return url.protocol === 'https:' && url.username === '' && url.password === '';
}
