// Whom this site believes, as the store has it: its own authorities, and the bundle of every
// SPIFFEFederation that is neither quarantined nor stale. Asked on every request, so what an entry
// means is computed once for each entry; deleting or quarantining a federation shows at the next
// question, and so does the end of its time.

import { hash } from 'node:crypto';
import type { TrustDomain } from '../../api/trust-domain.ts';
import type { Clock } from '../clock/clock.ts';
import { recordReader } from '../store/reader.ts';
import type { Entry, Store } from '../store/store.ts';
import type { Bundle, BundleSource } from './bundle.ts';
import {
  type BundleLife,
  bundleLife,
  type FederationLike,
  sourceOf,
  withheldFromMs,
} from './bundle-life.ts';
import { spkiOf } from './keys.ts';
import { parseSpiffeBundle } from './spiffe-bundle.ts';

/** The collection of the kind SPIFFEFederation. */
export const federationsCollection = 'spiffefederations';

/**
 * The document that stands for a federation: what was last accepted, and until then what its
 * operator gave. With another kind of source, what came from the one before stands for nothing.
 */
export function heldDocument(federation: FederationLike): string | undefined {
  const { spec, status } = federation;
  const { httpsSpiffe, static: fixed } = spec?.bundleSource ?? {};
  const source = sourceOf(federation);
  const accepted = (status?.source ?? source) === source ? status?.bundle : undefined;
  return accepted ?? httpsSpiffe?.bundleBootstrap ?? fixed?.bundle;
}

/** A SPIFFEFederation as stored, as far as it is read here. */
export interface StoredFederation extends FederationLike {
  readonly metadata?: NonNullable<FederationLike['metadata']> & {
    readonly generation?: number;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly status?: NonNullable<FederationLike['status']> & {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/**
 * What many ask of every federation, without its documents: of its source and its authorities only
 * which there is, and when they end. To keep each federation parsed would cost most of the memory of
 * a site that has thousands.
 */
export interface FederationSummary extends StoredFederation {
  readonly metadata: NonNullable<StoredFederation['metadata']> & { readonly name: string };
  /** Whether there is a bundle at all, accepted or given by its operator. */
  readonly hasDocument: boolean;
}

const federations = recordReader<StoredFederation>(federationsCollection);

export const federationSummaries = federations.derive((stored, { name }) =>
  summaryOf(name, stored),
);

/** Fields that are missing stay undefined, so that all summaries have one shape. */
function summaryOf(name: string, stored: StoredFederation): FederationSummary {
  const { metadata, spec, status } = stored;
  const { uid, generation, labels, creationTimestamp, deletionTimestamp } = metadata ?? {};
  const { quarantined, staleAfterSeconds, bundleSource } = spec ?? {};
  const { source, refreshHintSeconds, syncedAt, bootstrappedAt, authorities, conditions } =
    status ?? {};
  const summary = {
    metadata: { name, uid, generation, labels, creationTimestamp, deletionTimestamp },
    spec: {
      quarantined,
      staleAfterSeconds,
      bundleSource: Object.fromEntries(Object.keys(bundleSource ?? {}).map((one) => [one, {}])),
    },
    status: {
      source,
      refreshHintSeconds,
      syncedAt,
      bootstrappedAt,
      authorities: authorities?.map(({ notAfter }) => ({ notAfter })),
      conditions: conditions?.map((one) => ({ type: one.type, status: one.status })),
    },
    hasDocument: heldDocument(stored) !== undefined,
  };
  return summary as FederationSummary;
}

/**
 * By key and not by certificate, or by the kind of authority: a certificate can be made anew around
 * the same key. With `x509`, keys of JWT authorities count for nothing: nobody shows by a connection
 * that he holds those.
 */
export function sharesAuthority(
  bundle: Bundle,
  own: Bundle,
  kinds: 'all' | 'x509' = 'all',
): boolean {
  const keys = new Set(keysOf(own, kinds));
  return keysOf(bundle, kinds).some((key) => keys.has(key));
}

function keysOf({ authorities, jwtAuthorities }: Bundle, kinds: 'all' | 'x509'): readonly string[] {
  const keys = authorities.map(({ spki }) => spki.toString('latin1'));
  if (kinds === 'x509') return keys;
  for (const { publicKey } of jwtAuthorities.values()) {
    keys.push(spkiOf(publicKey).toString('latin1'));
  }
  return keys;
}

interface Known {
  readonly entry: Entry;
  /** The bundle of this site by which it was judged. */
  readonly own: Bundle;
  readonly federation: FederationSummary;
  /** Of the document that is believed: SHA-256. */
  readonly digest: string | undefined;
  /** What the document says, believed or not. */
  readonly read: Bundle | undefined;
  readonly bundle: Bundle | undefined;
  /** Of the facts that `withheldFromMs` was computed with. */
  syncedAt: unknown;
  withheldFromMs: number;
}

type Reads = Pick<Store, 'get'> & Partial<Pick<Store, 'facts'>>;

export class StoreBundles implements BundleSource {
  readonly #store: Reads;
  readonly #own: { readonly bundle: Bundle };
  readonly #clock: Pick<Clock, 'now'> | undefined;
  /** As many as there are federations: one that is gone is forgotten when it is asked for. */
  readonly #known = new Map<string, Known>();
  /**
   * What is held, also where it is stale: for sites, which recover by it (a fetch authenticates its
   * endpoint, a peer calls). Nothing of it may reach a workload.
   */
  readonly held: BundleSource;

  /** Without a clock nothing goes stale. */
  constructor(store: Reads, own: { readonly bundle: Bundle }, clock?: Pick<Clock, 'now'>) {
    this.#store = store;
    this.#own = own;
    this.#clock = clock;
    this.held = { bundleFor: (trustDomain) => this.#find(trustDomain)?.bundle };
  }

  bundleFor(trustDomain: TrustDomain): Bundle | undefined {
    const found = this.#find(trustDomain);
    if (found === undefined || !('entry' in found) || this.#clock === undefined) {
      return found?.bundle;
    }
    return this.#clock.now() < this.#withheldFromMs(found) ? found.bundle : undefined;
  }

  #find(trustDomain: TrustDomain): Known | { readonly bundle: Bundle } | undefined {
    const own = this.#own;
    if (trustDomain.equals(own.bundle.trustDomain)) return own;
    const { name } = trustDomain;
    const entry = this.#store.get(federationsCollection, name);
    const known = this.#known.get(name);
    if (entry === undefined) {
      if (known !== undefined) this.#known.delete(name);
      return undefined;
    }
    if (known?.entry === entry && known.own === own.bundle) return known;
    const { federation, digest, read } =
      known?.entry === entry ? known : readEntry(entry, trustDomain, known);
    const found = {
      entry,
      own: own.bundle,
      federation,
      digest,
      read,
      // Whoever holds one of our keys under another name could speak for that name.
      bundle: read && sharesAuthority(read, own.bundle) ? undefined : read,
      syncedAt: null,
      withheldFromMs: 0,
    };
    this.#known.set(name, found);
    return found;
  }

  /** Computed anew only where the endpoint confirmed the bundle since. */
  #withheldFromMs(known: Known): number {
    const facts = this.#store.facts?.get(known.entry.collection, known.entry.name);
    const syncedAt = liveSyncedAt(known.federation, facts);
    if (known.syncedAt !== syncedAt) {
      known.syncedAt = syncedAt;
      known.withheldFromMs = withheldFromMs(lifeOf(known, syncedAt));
    }
    return known.withheldFromMs;
  }
}

function readDocument(document: string | undefined, trustDomain: TrustDomain): Bundle | undefined {
  if (document === undefined) return undefined;
  try {
    return parseSpiffeBundle(document, trustDomain).bundle;
  } catch {
    // The federation's own status tells why.
    return undefined;
  }
}

function readEntry(
  entry: Entry,
  trustDomain: TrustDomain,
  before: Known | undefined,
): Pick<Known, 'federation' | 'digest' | 'read'> {
  const stored = federations.once(entry);
  const federation = federationSummaries.of(entry, stored);
  const document = believedDocument(stored);
  const digest = document && hash('sha256', document, 'base64');
  // A status that only tells another time leaves the bundle the same, and its hash with it.
  const isSame = before !== undefined && before.digest === digest;
  return { federation, digest, read: isSame ? before.read : readDocument(document, trustDomain) };
}

/** When the endpoint last confirmed the bundle: as the facts have it, where they are of this very object. */
export function liveSyncedAt(
  { metadata, status }: FederationLike,
  facts: Readonly<Record<string, unknown>> | undefined,
): string | undefined {
  const live =
    facts !== undefined && facts['uid'] === metadata?.uid ? facts['syncedAt'] : undefined;
  if (live === null) return undefined;
  return typeof live === 'string' ? live : status?.syncedAt;
}

/** By what the bundle itself says, and not what a status says of it: they may be of two moments. */
function lifeOf({ federation, bundle }: Known, syncedAt: string | undefined): BundleLife {
  const life = bundleLife(federation, syncedAt);
  const ends = (bundle?.authorities ?? []).map(({ notAfterMs }) => notAfterMs + 1000);
  return { ...life, expiredAtMs: ends.length === 0 ? undefined : Math.max(...ends) };
}

function believedDocument(federation: FederationLike): string | undefined {
  if (federation.spec?.quarantined === true) return undefined;
  if (federation.metadata?.deletionTimestamp !== undefined) return undefined;
  return heldDocument(federation);
}
