// Expiry times of all credentials, in one family of gauges, so that one alerting rule covers all of
// them. Computed at each scrape.

import { X509Certificate } from 'node:crypto';
import { federationGrantKind } from '../api/kinds/federation-grant.ts';
import { joinTokenKind } from '../api/kinds/join-token.ts';
import { spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { tokensCollection } from '../core/access/token-register.ts';
import { bundleLife } from '../api/bundle-life.ts';
import { federationSummaries } from './federation/federated-bundles.ts';
import type { TlsCredential } from '../core/identity/tls/options.ts';
import type { PlaneContext, WebCertificate } from '../core/plane/plane.ts';
import { recordReader } from '../core/store/reader.ts';
import type { Store } from '../core/store/store.ts';
import { membersCollection } from './join/member-records.ts';
import type { Member } from './join/members.ts';

export interface ExpiryParts
  extends Pick<PlaneContext, 'metrics' | 'clock' | 'store' | 'authority'> {
  readonly credentials: { readonly current: { readonly notAfterMs: number } };
  readonly web: Pick<WebCertificate, 'current'> | undefined;
  /** The earliest expiry of the workload SVIDs in use; undefined if there is none. */
  readonly firstWorkloadExpiryMs: () => number | undefined;
  readonly maxFederations: number;
}

/** For kinds with thousands of objects: the number of those that expire first. */
const mostOfAKind = 100;
/** Far above the real number of each kind, except federations. */
const mostOthers = 1000;
/** The number of federations to read before other tasks get a turn. */
const inARow = 100;
/** As many characters of an authority's id as `hansa trust rotate status` shows. */
const idCharacters = 16;

type Expiry = readonly [kind: string, name: string, atMs: number];

export function observeExpiry(parts: ExpiryParts): void {
  const { metrics, clock } = parts;
  const webExpiry = certificateExpiry();
  const kept = ending.map((one) => firstToEnd(parts.store, one));
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
    ...of(parts.firstWorkloadExpiryMs()).map((atMs): Expiry => ['workload-svid', 'first', atMs]),
    ...kept.flatMap((read) => read(clock.now())),
  ];
  metrics.observe(
    {
      name: 'hansa_expiry_seconds',
      help: 'Time until expiry, by kind: x509-authority and jwt-authority (name: the beginning of the ID), site-svid, workload-svid (the first to expire), web-certificate, federated-authorities (name: the trust domain; the last to expire), and the hundred first to expire of join-token, grant, access-token and agent. Negative after expiry.',
      labels: ['kind', 'name'],
      mostSeries: parts.maxFederations + mostOthers,
    },
    function* (report) {
      const tell = ([kind, name, atMs]: Expiry): void =>
        report({ kind, name }, (atMs - clock.now()) / 1000);
      all().forEach(tell);
      yield* federated(tell);
    },
  );
}

/** None or one. */
function of<T>(value: T | undefined): readonly T[] {
  return value === undefined ? [] : [value];
}

const authoritiesEndAtMs = federationSummaries.derive(
  (federation) => bundleLife(federation).expiredAtMs,
);

/** The last authority of each trust domain: after its expiry no SVID of the domain can be verified. */
function federatedAuthorities(
  store: Store,
): (tell: (expiry: Expiry) => void) => Generator<undefined, void> {
  return function* (tell) {
    for (const [at, entry] of store.list(spiffeFederationKind.plural).entries.entries()) {
      const atMs = authoritiesEndAtMs.of(entry);
      if (atMs !== undefined) tell(['federated-authorities', entry.name, atMs]);
      if (at % inARow === inARow - 1) yield;
    }
  };
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

interface Ending {
  readonly kind: string;
  readonly collection: string;
  /** Reads only records with this name prefix, and reports them without it. */
  readonly prefix?: string;
  /** NaN if it does not expire. */
  readonly endOf: (record: never) => number;
}

type WithSpec = { readonly spec?: { readonly expiresAt?: string } };
const endOfSpec = ({ spec }: WithSpec): number => Date.parse(spec?.expiresAt ?? '');

/** The stored credentials that expire. */
const ending: readonly Ending[] = [
  { kind: 'join-token', collection: joinTokenKind.plural, endOf: endOfSpec },
  { kind: 'grant', collection: federationGrantKind.plural, endOf: endOfSpec },
  {
    kind: 'access-token',
    collection: tokensCollection,
    endOf: ({ expiresAt }: { readonly expiresAt: string }) => Date.parse(expiresAt),
  },
  {
    kind: 'agent',
    collection: membersCollection,
    // Bot instances join and expire every hour, so they are left out.
    prefix: 'agent/',
    endOf: ({ notAfterMs }: Member) => notAfterMs,
  },
];

/** The valid ones, ordered by expiry. */
function firstToEnd(
  store: Store,
  { kind, collection, endOf, prefix = '' }: Ending,
): (nowMs: number) => readonly Expiry[] {
  const endsAtMs = recordReader(collection).derive((value) => endOf(value as never));
  return (nowMs) => {
    const found: Expiry[] = [];
    for (const entry of store.list(collection).entries) {
      const { name } = entry;
      if (!name.startsWith(prefix)) continue;
      const atMs = endsAtMs.of(entry);
      if (atMs > nowMs) found.push([kind, name.slice(prefix.length), atMs]);
    }
    return found.toSorted((one, other) => one[2] - other[2]).slice(0, mostOfAKind);
  };
}
