// When what expires expires, in one family of gauges, so that one rule of alerting watches all of it.
// Read when somebody scrapes.

import { X509Certificate } from 'node:crypto';
import { joinTokenKind } from '../api/kinds/join-token.ts';
import { type SPIFFEFederation, spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { bundleLife } from '../core/identity/bundle-life.ts';
import type { TlsCredential } from '../core/identity/tls-options.ts';
import type { PlaneContext, WebCertificate } from '../core/plane/plane.ts';
import type { Entry, Store } from '../core/store/store.ts';

export interface ExpiryParts
  extends Pick<PlaneContext, 'metrics' | 'clock' | 'store' | 'authority'> {
  readonly credentials: { readonly current: { readonly notAfterMs: number } };
  readonly web: Pick<WebCertificate, 'current'> | undefined;
}

/** Of join tokens, which anybody with the right can make by the thousand, so many that end first. */
const mostTokens = 100;
/** As many characters of an authority's id as `hansa trust rotate status` shows. */
const idCharacters = 16;

type Expiry = readonly [kind: string, name: string, atMs: number];

export function observeExpiry(parts: ExpiryParts): void {
  const { metrics, clock } = parts;
  const webExpiry = certificateExpiry();
  const tokens = joinTokens(parts.store);
  const federated = federatedAuthorities(parts.store);
  const all = (): readonly Expiry[] => [
    ...parts.authority.authorities.map(
      ({ kind, id, notAfterMs }): Expiry => [
        `${kind}-authority`,
        id.slice(0, idCharacters),
        notAfterMs,
      ],
    ),
    ['site-svid', 'site', parts.credentials.current.notAfterMs],
    ...of(parts.web?.current).map((held): Expiry => ['web-certificate', 'web', webExpiry(held)]),
    ...federated(),
    ...tokens(clock.now()),
  ];
  metrics.observe(
    {
      name: 'hansa_expiry_seconds',
      help: 'Time until something expires, by what it is: x509-authority and jwt-authority (name: the beginning of its id), site-svid, web-certificate, federated-authorities (name: the trust domain; the last of them) and join-token (the hundred that end first). Below zero it has expired.',
      labels: ['kind', 'name'],
    },
    (report) => {
      const nowMs = clock.now();
      for (const [kind, name, atMs] of all()) report({ kind, name }, (atMs - nowMs) / 1000);
    },
  );
}

/** None or one. */
function of<T>(value: T | undefined): readonly T[] {
  return value === undefined ? [] : [value];
}

/** Of a trust domain the last one: from then on nothing of it can be verified. */
function federatedAuthorities(store: Store): () => readonly Expiry[] {
  const parsed = new WeakMap<Entry, number | undefined>();
  return () =>
    store.list(spiffeFederationKind.plural).entries.flatMap((entry) => {
      if (!parsed.has(entry)) {
        const federation = JSON.parse(entry.value.toString('utf8')) as SPIFFEFederation;
        parsed.set(entry, bundleLife(federation).expiredAtMs);
      }
      return of(parsed.get(entry)).map(
        (atMs): Expiry => ['federated-authorities', entry.name, atMs],
      );
    });
}

/** A certificate is read once. */
function certificateExpiry(): (credential: TlsCredential) => number {
  const known = new WeakMap<TlsCredential, number>();
  return (credential) => {
    const atMs =
      known.get(credential) ??
      new X509Certificate(credential.certificateChain).validToDate.getTime();
    known.set(credential, atMs);
    return atMs;
  };
}

/** Those that can still be used, the first to end first. */
function joinTokens(store: Store): (nowMs: number) => readonly Expiry[] {
  const parsed = new WeakMap<Entry, number>();
  return (nowMs) => {
    const found: Expiry[] = [];
    for (const entry of store.list(joinTokenKind.plural).entries) {
      const atMs = parsed.get(entry) ?? tokenExpiry(entry);
      parsed.set(entry, atMs);
      if (atMs > nowMs) found.push(['join-token', entry.name, atMs]);
    }
    return found.toSorted((one, other) => one[2] - other[2]).slice(0, mostTokens);
  };
}

/** -Infinity for one that does not expire: it is left out like one that has. */
function tokenExpiry(entry: Entry): number {
  const { spec } = JSON.parse(entry.value.toString('utf8')) as {
    readonly spec?: { readonly expiresAt?: string };
  };
  const atMs = Date.parse(spec?.expiresAt ?? '');
  return Number.isNaN(atMs) ? Number.NEGATIVE_INFINITY : atMs;
}
