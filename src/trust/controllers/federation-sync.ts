// Keeps the bundle of every SPIFFEFederation fresh: takes a static one in, asks an endpoint at once
// when the federation is made or changed, and then as often as its publisher hints. A peer that is
// slow, dead or hostile shows in its own status; the last good bundle stays.

import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { SpiffeId } from '../../api/spiffe-id.ts';
import { TrustDomain } from '../../api/trust-domain.ts';
import type { BundleSource } from '../../core/identity/bundle.ts';
import {
  parseSpiffeBundle,
  refreshAfterSeconds,
  type SpiffeBundle,
} from '../../core/identity/spiffe-bundle.ts';
import { heldDocument } from '../../core/identity/store-bundles.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import type { ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { acceptBundle } from '../accept-bundle.ts';
import type { FederationMetrics } from '../federation-metrics.ts';
import {
  acceptedStatus,
  expiredAtMs,
  failedStatus,
  type FederationStatus,
  type Look,
  restingStatus,
  sourceOf,
  staleAtMs,
} from '../federation-status.ts';
import { type Failure, failureOf, fetchBundle, isRefusal } from '../fetch-bundle.ts';

const controllerName = 'federation-sync';
const lease = 'controller.federation-sync';
/** Waiting costs nothing but a socket: enough that dead peers leave room for the others. */
const parallelism = 64;
/** After a failure: a second, then twice as long each time, up to what a healthy peer is asked. */
const firstRetrySeconds = 1;
const longestRetrySeconds = 300;
/** Peers that were made together are not asked together. */
const jitter = 0.1;

type Parts = Pick<
  PlaneContext,
  'store' | 'clock' | 'random' | 'transport' | 'bundles' | 'authority' | 'resources' | 'audit'
>;

export function federationSync(parts: Parts, metrics: FederationMetrics): Controller {
  const { store, clock } = parts;
  const sync = new FederationSync(parts, metrics);
  return {
    name: controllerName,
    lease,
    parallelism,
    sources: [new StoreSource({ store, clock, collection: spiffeFederationKind.plural })],
    reconcile: (name, context) => sync.reconcile(name, context),
  };
}

class FederationSync {
  readonly #parts: Parts;
  readonly #metrics: FederationMetrics;
  readonly #federations: ResourceClient<SPIFFEFederation>;

  constructor(parts: Parts, metrics: FederationMetrics) {
    this.#parts = parts;
    this.#metrics = metrics;
    this.#federations = parts.resources<SPIFFEFederation>(spiffeFederationKind);
  }

  async reconcile(name: string, context: ReconcileContext): Promise<ReconcileResult | undefined> {
    const federation = await this.#federations.get(name);
    if (federation === undefined || federation.metadata.deletionTimestamp !== undefined) {
      return undefined;
    }
    const as: WriteAs = {
      controller: controllerName,
      ...(context.epoch === undefined ? {} : { fence: { lease, epoch: context.epoch } }),
    };
    const next = await this.#look(federation, context, as);
    return next && this.#wakeFor(next);
  }

  #look(
    federation: SPIFFEFederation,
    context: ReconcileContext,
    as: WriteAs,
  ): Promise<SPIFFEFederation | undefined> {
    if (this.#isDue(federation)) {
      return sourceOf(federation) === 'static'
        ? this.#takeIn(federation, as)
        : this.#fetch(federation, context, as);
    }
    const nowMs = this.#parts.clock.now();
    return this.#patch(federation, (current) => restingStatus(current, nowMs), as);
  }

  /** At once after every change of the spec; else when it is time, or the clock was set back. */
  #isDue({ status, metadata }: SPIFFEFederation): boolean {
    const observed = findCondition(status?.conditions, 'Ready')?.observedGeneration;
    if (observed !== metadata.generation) return true;
    if (status?.nextSyncAt === undefined) return false;
    const waitMs = Date.parse(status.nextSyncAt) - this.#parts.clock.now();
    return waitMs <= 0 || waitMs > refreshAfterSeconds(Number.MAX_SAFE_INTEGER) * 1000;
  }

  /** The next moment at which something of the status changes by itself. */
  #wakeFor(federation: SPIFFEFederation): ReconcileResult | undefined {
    const nowMs = this.#parts.clock.now();
    const { nextSyncAt } = federation.status ?? {};
    const moments = [staleAtMs(federation), expiredAtMs(federation)].filter(
      (moment) => moment !== undefined && moment > nowMs,
    ) as number[];
    if (nextSyncAt !== undefined) moments.push(Date.parse(nextSyncAt));
    if (moments.length === 0) return undefined;
    return { requeueAfterMs: Math.max(Math.min(...moments) - nowMs, 0) };
  }

  async #takeIn(federation: SPIFFEFederation, as: WriteAs): Promise<SPIFFEFederation | undefined> {
    const document = federation.spec.bundleSource.static?.bundle ?? '';
    const { generation } = federation.metadata;
    const nowMs = this.#parts.clock.now();
    try {
      // An operator may give an older one: no sequence is held against it.
      const accepted = this.#accept(federation, document, undefined);
      const look = { generation, nowMs, nextSyncAtMs: undefined };
      return await this.#write(federation, document, accepted, look, as);
    } catch (caught) {
      const failure = failureOf(caught);
      if (failure.class === 'internal') throw caught;
      return this.#patch(
        federation,
        (current) => failedStatus(current, failure, { generation, nowMs, nextSyncAtMs: undefined }),
        as,
      );
    }
  }

  async #fetch(
    federation: SPIFFEFederation,
    context: ReconcileContext,
    as: WriteAs,
  ): Promise<SPIFFEFederation | undefined> {
    const { name, generation } = federation.metadata;
    const { clock } = this.#parts;
    const startedAt = clock.monotonic();
    const asked = await this.#ask(federation, context.signal).then(
      (document) => ({ document, failure: undefined }),
      (caught: unknown) => {
        const failure = failureOf(caught);
        // A fault of ours, a lost lease or the end of the site says nothing about the peer.
        if (failure.class === 'internal' || context.signal.aborted) throw caught;
        return { document: undefined, failure };
      },
    );
    const nowMs = clock.now();
    this.#metrics.asked(name, clock.monotonic() - startedAt, asked.failure?.class);
    if (asked.failure !== undefined) {
      const { failure } = asked;
      context.log.warn('bundle could not be fetched', { trustDomain: name, ...failure });
      if (isRefusal(failure)) this.#recordRefusal(federation, failure);
      const failures = federation.status?.consecutiveFailures ?? 0;
      const nextSyncAtMs = nowMs + this.#afterMs(retryAfterSeconds(failures));
      return this.#patch(
        federation,
        (current) => failedStatus(current, failure, { generation, nowMs, nextSyncAtMs }),
        as,
      );
    }
    const { text, accepted } = asked.document;
    const nextSyncAtMs = nowMs + this.#afterMs(refreshAfterSeconds(accepted.refreshHintSeconds));
    return this.#write(federation, text, accepted, { generation, nowMs, nextSyncAtMs }, as);
  }

  async #ask(
    federation: SPIFFEFederation,
    signal: AbortSignal,
  ): Promise<{ readonly text: string; readonly accepted: SpiffeBundle }> {
    const { transport, clock, bundles } = this.#parts;
    const source = federation.spec.bundleSource.httpsSpiffe;
    if (source === undefined) throw new Error('the federation has no endpoint');
    const held = heldBundle(federation);
    // Quarantine is for others: the endpoint is still believed by the bundle that is held.
    const believed: BundleSource = {
      bundleFor: (asked) =>
        asked.name === federation.metadata.name ? held?.bundle : bundles.bundleFor(asked),
    };
    const document = await fetchBundle({
      url: new URL(source.bundleEndpointURL),
      endpoint: SpiffeId.parse(source.endpointSpiffeID),
      bundles: believed,
      transport,
      clock,
      signal,
    });
    const accepted = this.#accept(federation, document, seenSequence(federation));
    return { text: document.toString('utf8'), accepted };
  }

  #accept(
    federation: SPIFFEFederation,
    document: string | Uint8Array,
    heldSequence: number | undefined,
  ): SpiffeBundle {
    return acceptBundle({
      document,
      trustDomain: TrustDomain.parse(federation.metadata.name),
      own: this.#parts.authority.bundle,
      heldSequence,
      nowMs: this.#parts.clock.now(),
    });
  }

  /** A change of authorities is a rotation, and recorded as one. */
  #write(
    federation: SPIFFEFederation,
    document: string,
    accepted: SpiffeBundle,
    look: Look,
    as: WriteAs,
  ): Promise<SPIFFEFederation | undefined> {
    const { name } = federation.metadata;
    const held = federation.status?.bundle === undefined ? undefined : heldBundle(federation);
    const rotated = held !== undefined && held.bundle.hash !== accepted.bundle.hash;
    return this.#patch(
      federation,
      (current) => acceptedStatus(current, document, accepted, look),
      as,
      rotated
        ? {
            verb: `${spiffeFederationKind.auditName}.rotation`,
            reason: `authorities of ${name}: ${shortList(held)} → ${shortList(accepted)}`,
          }
        : undefined,
    );
  }

  /**
   * A fetch takes its time. What it found says nothing about a federation that was made anew under
   * the same name meanwhile, nor about another kind of source: those have a look of their own.
   */
  #patch(
    looked: SPIFFEFederation,
    next: (current: SPIFFEFederation) => FederationStatus,
    as: WriteAs,
    transition?: Parameters<ResourceClient<SPIFFEFederation>['patchStatus']>[3],
  ): Promise<SPIFFEFederation | undefined> {
    const { name, uid } = looked.metadata;
    return this.#federations.patchStatus(
      name,
      (current) =>
        current.metadata.uid === uid && sourceOf(current) === sourceOf(looked)
          ? next(current)
          : // As it is, also where it has none yet: nothing is written then.
            (current.status as FederationStatus),
      as,
      transition,
    );
  }

  /** Whoever answered is not believed: an operator may want to know later how often, and since when. */
  #recordRefusal({ metadata }: SPIFFEFederation, failure: Failure): void {
    this.#parts.audit.deny({
      actor: { user: `bundle-endpoint:${metadata.name}`, groups: [], via: 'federation' },
      verb: `${spiffeFederationKind.auditName}.refuse`,
      kind: spiffeFederationKind.kind,
      name: metadata.name,
      uid: metadata.uid,
      outcome: 'deny',
      code: failure.code,
      reason: `${failure.class}: ${failure.message}`,
    });
  }

  #afterMs(seconds: number): number {
    return seconds * 1000 * (1 - jitter * this.#parts.random.unit());
  }
}

/** What is held now, quarantined or not; undefined where it cannot be read. */
function heldBundle(federation: SPIFFEFederation): SpiffeBundle | undefined {
  const document = heldDocument(federation);
  if (document === undefined) return undefined;
  try {
    return parseSpiffeBundle(document, TrustDomain.parse(federation.metadata.name));
  } catch {
    return undefined;
  }
}

/** Of what the endpoint itself gave. A bootstrap may be written by hand, and proves nothing about it. */
function seenSequence({ status }: SPIFFEFederation): number | undefined {
  return status?.source === 'https_spiffe' ? status.sequence : undefined;
}

function retryAfterSeconds(failures: number): number {
  return Math.min(firstRetrySeconds * 2 ** Math.min(failures, 30), longestRetrySeconds);
}

function shortList({ bundle }: SpiffeBundle): string {
  return bundle.authorities.map(({ fingerprint }) => fingerprint.slice(0, 16)).join(', ');
}
