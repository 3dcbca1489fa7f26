// A cache of the bundles in SPIFFEFederations. Every request reads it, so it parses each version of a
// federation once. Deletion, quarantine and expiry take effect at the next read. entitlement.ts decides
// which workloads get a bundle.

import { hash } from 'node:crypto';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { Bundle, BundleSource } from '../../core/identity/bundle/bundle.ts';
import {
  type BundleLife,
  bundleLife,
  type FederationLike,
  sourceOf,
} from '../../api/bundle-life.ts';
import { sharesAuthority } from '../../core/identity/bundle/shares-authority.ts';
import { parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { type BundleFacts, bundleProblem } from '../authorization/entitlement.ts';

export const federationsCollection = spiffeFederationKind.plural;

/**
 * The current document of a federation: the last accepted one, or before the first fetch the bootstrap.
 * A document from an earlier kind of source does not count.
 */
export function heldDocument(federation: FederationLike): string | undefined {
  const { spec, status } = federation;
  const { httpsSpiffe, static: fixed } = spec?.bundleSource ?? {};
  const source = sourceOf(federation);
  const accepted = (status?.source ?? source) === source ? status?.bundle : undefined;
  return accepted ?? httpsSpiffe?.bundleBootstrap ?? fixed?.bundle;
}

/** The parts of a stored SPIFFEFederation that this file reads. */
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
 * The parts of a federation that frequent readers need, without its documents. To keep thousands of
 * parsed federations would take most of the memory of a site.
 */
export interface FederationSummary extends StoredFederation {
  readonly metadata: NonNullable<StoredFederation['metadata']> & { readonly name: string };
  /** Whether there is a bundle: an accepted one, or the bootstrap. */
  readonly hasDocument: boolean;
}

/** Whole federations, with their documents: see `FederationSummary`. */
export const storedFederations = recordReader<StoredFederation>(federationsCollection);

export const federationSummaries = storedFederations.derive((stored, { name }) =>
  summaryOf(name, stored),
);

/** Missing fields are set to undefined, so that all summaries have one shape. */
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

interface Known {
  readonly entry: Entry;
  /** The bundle of this site at the time of the check. */
  readonly own: Bundle;
  readonly federation: FederationSummary;
  /** SHA-256 of the trusted document. */
  readonly digest: string | undefined;
  /** The facts that `facts` was computed from; null before that. */
  syncedAt: string | undefined | null;
  facts: BundleFacts;
}

type Reads = Pick<Store, 'get'> & Partial<Pick<Store, 'facts'>>;

export class FederatedBundles implements BundleSource {
  readonly #store: Reads;
  readonly #own: { readonly bundle: Bundle };
  readonly #clock: Pick<Clock, 'now'> | undefined;
  /** One per federation. The next read of a deleted federation removes it. */
  readonly #known = new Map<string, Known>();
  /**
   * The held bundle, even if it is stale. The site uses it to recover: to verify the endpoint of a fetch
   * and the calls of a peer. It must not reach a workload.
   */
  readonly held: BundleSource;

  /** Without a clock, no bundle becomes stale. */
  constructor(store: Reads, own: { readonly bundle: Bundle }, clock?: Pick<Clock, 'now'>) {
    this.#store = store;
    this.#own = own;
    this.#clock = clock;
    this.held = { bundleFor: (trustDomain) => this.#find(trustDomain, beforeAllTime) };
  }

  bundleFor(trustDomain: TrustDomain): Bundle | undefined {
    return this.#find(trustDomain, this.#clock?.now() ?? beforeAllTime);
  }

  #find(trustDomain: TrustDomain, nowMs: number): Bundle | undefined {
    const own = this.#own.bundle;
    if (trustDomain.equals(own.trustDomain)) return own;
    const facts = this.factsOf(trustDomain.name);
    return bundleProblem(facts, nowMs) === undefined ? facts?.bundle : undefined;
  }

  /** Undefined if there is no federation, or if it is being deleted. Returns the same object until it changes. */
  factsOf(name: string): BundleFacts | undefined {
    const entry = this.#store.get(federationsCollection, name);
    let known = this.#known.get(name);
    if (entry === undefined) {
      if (known !== undefined) this.#known.delete(name);
      return undefined;
    }
    if (known?.entry !== entry || known.own !== this.#own.bundle) {
      known = this.#read(entry, known);
      this.#known.set(name, known);
    }
    const { federation } = known;
    if (federation.metadata.deletionTimestamp !== undefined) return undefined;
    const syncedAt = liveSyncedAt(federation, this.#store.facts?.get(federationsCollection, name));
    // Computed again only after the endpoint confirmed the bundle.
    if (known.syncedAt !== syncedAt) {
      known.syncedAt = syncedAt;
      known.facts = { ...known.facts, life: lifeOf(federation, known.facts.bundle, syncedAt) };
    }
    return known.facts;
  }

  #read(entry: Entry, before: Known | undefined): Known {
    const own = this.#own.bundle;
    const { federation, digest, bundle } =
      before?.entry === entry
        ? { ...before, bundle: before.facts.bundle }
        : readEntry(entry, before);
    return {
      entry,
      own,
      federation,
      digest,
      syncedAt: null,
      facts: {
        quarantined: federation.spec?.quarantined === true,
        bundle,
        sharesAuthority: bundle !== undefined && sharesAuthority(bundle, own),
        life: bundleLife(federation),
      },
    };
  }
}

/** A moment at which no bundle is stale or expired. */
const beforeAllTime = Number.NEGATIVE_INFINITY;

function readDocument(document: string | undefined, name: string): Bundle | undefined {
  if (document === undefined) return undefined;
  try {
    return parseSpiffeBundle(document, TrustDomain.parse(name)).bundle;
  } catch {
    // The status of the federation gives the reason.
    return undefined;
  }
}

function readEntry(
  entry: Entry,
  before: Known | undefined,
): Pick<Known, 'federation' | 'digest'> & Pick<BundleFacts, 'bundle'> {
  const stored = storedFederations.once(entry);
  const federation = federationSummaries.of(entry, stored);
  const document = usableDocument(stored);
  const digest = document && hash('sha256', document, 'base64');
  // A status update that changes only times does not change the bundle or its hash.
  const isSame = before !== undefined && before.digest === digest;
  const bundle = isSame ? before.facts.bundle : readDocument(document, entry.name);
  return { federation, digest, bundle };
}

/** When the endpoint last confirmed the bundle: from the facts, if they belong to this object. */
export function liveSyncedAt(
  { metadata, status }: FederationLike,
  facts: Readonly<Record<string, unknown>> | undefined,
): string | undefined {
  const live =
    facts !== undefined && facts['uid'] === metadata?.uid ? facts['syncedAt'] : undefined;
  if (live === null) return undefined;
  return typeof live === 'string' ? live : status?.syncedAt;
}

/** Read from the bundle, not from the status, which may be from another time. */
function lifeOf(
  federation: FederationSummary,
  bundle: Bundle | undefined,
  syncedAt: string | undefined,
): BundleLife {
  const life = bundleLife(federation, syncedAt);
  const ends = (bundle?.authorities ?? []).map(({ notAfterMs }) => notAfterMs + 1000);
  return { ...life, expiredAtMs: ends.length === 0 ? undefined : Math.max(...ends) };
}

/** The document whose bundle the site may use; undefined if there is none. */
export function usableDocument(federation: FederationLike): string | undefined {
  if (federation.spec?.quarantined === true) return undefined;
  if (federation.metadata?.deletionTimestamp !== undefined) return undefined;
  return heldDocument(federation);
}
