// Keeps the bundle of every SPIFFEFederation fresh. It reads a static bundle, or fetches from the
// endpoint: at once after a change or a request, and then at the refresh hint. After a failure, the last
// good bundle stays, and workloads get it until it is stale (api/bundle-life.ts). The site keeps it
// longer to verify the endpoint, so that the federation recovers automatically.

import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { sourceOf } from '../../api/bundle-life.ts';
import { refreshAfterSeconds } from '../../api/values/refresh-hint.ts';
import { type SpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { heldDocument } from '../federation/federated-bundles.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import type { ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { acceptFor, type Answer, askEndpoint, readHeld } from '../federation/ask-endpoint.ts';
import { FederationFacts, sameState } from '../federation/federation-facts.ts';
import type { FederationMetrics } from '../federation/federation-metrics.ts';
import {
  acceptedStatus,
  failedStatus,
  type FederationStatus,
  type Look,
  momentsOf,
  rebootstrappedStatus,
  restingStatus,
} from '../federation/federation-status.ts';
import { type Failure, failureOf, isRefusal } from '../federation/fetch-failure.ts';
import { pendingRefresh, refreshCollection, refreshDone } from '../federation/refresh-request.ts';
import { describeRotation } from '../federation/rotation-record.ts';
import { ConcurrencyLimiter } from '../../core/limits/concurrency-limiter.ts';

const controllerName = 'federation-sync';
const lease = 'controller.federation-sync';
/**
 * The maximum number of concurrent fetches. Endpoints that answered last time and endpoints that did
 * not have separate limits, so that the latter cannot delay the former. A slow endpoint gives its slot
 * back after half a second (core/limits/concurrency-limiter.ts).
 */
const fetchLimits = { atOnce: 128, patienceMs: 500, mostWaiting: 1024 } as const;
/** All waiting endpoints get a slot within this time, even if others are silent. */
const comeAgainMs = (fetchLimits.mostWaiting / fetchLimits.atOnce) * fetchLimits.patienceMs;
/**
 * Never reached: of each kind, 1,024 wait, and at most 128 start every half second and end after ten
 * seconds (fetch-bundle.ts). So at most 2 × (1,024 + 2,560) are in progress.
 */
const parallelism = 8_192;
/** Backoff after a failure: one second, doubled each time, up to the normal refresh interval. */
const firstRetrySeconds = 1;
const longestRetrySeconds = 300;
/** Jitter, so that peers that were created together are not fetched together. */
const jitter = 0.1;

type Parts = Pick<
  PlaneContext,
  'store' | 'clock' | 'random' | 'transport' | 'heldBundles' | 'authority' | 'resources' | 'audit'
>;

export function federationController(parts: Parts, metrics: FederationMetrics): Controller {
  const { store, clock } = parts;
  const sync = new FederationSync(parts, metrics);
  return {
    name: controllerName,
    lease,
    parallelism,
    sources: [
      new StoreSource({ store, clock, collection: spiffeFederationKind.plural }),
      new StoreSource({ store, clock, collection: refreshCollection }),
    ],
    reconcile: (name, context) => sync.reconcile(name, context),
  };
}

/** The request of an operator for this fetch. */
interface Wish {
  readonly now: boolean;
  readonly acceptRollback: boolean;
}

class FederationSync {
  readonly #parts: Parts;
  readonly #metrics: FederationMetrics;
  readonly #federations: ResourceClient<SPIFFEFederation>;
  readonly #facts: FederationFacts;
  readonly #proven: ConcurrencyLimiter;
  readonly #unproven: ConcurrencyLimiter;

  constructor(parts: Parts, metrics: FederationMetrics) {
    this.#parts = parts;
    this.#metrics = metrics;
    this.#federations = parts.resources<SPIFFEFederation>(spiffeFederationKind);
    this.#facts = new FederationFacts(parts.store);
    this.#proven = new ConcurrencyLimiter({ clock: parts.clock, ...fetchLimits });
    this.#unproven = new ConcurrencyLimiter({ clock: parts.clock, ...fetchLimits });
  }

  async reconcile(name: string, context: ReconcileContext): Promise<ReconcileResult | undefined> {
    const { store } = this.#parts;
    const fence = context.epoch === undefined ? undefined : { lease, epoch: context.epoch };
    const as: WriteAs = { controller: controllerName, ...(fence && { fence }) };
    const pending = pendingRefresh(store, name);
    const stored = await this.#federations.get(name);
    if (stored === undefined || stored.metadata.deletionTimestamp !== undefined) {
      if (stored === undefined) this.#metrics.forget(name);
      if (pending !== undefined) await refreshDone(store, pending, fence);
      return undefined;
    }
    let federation = this.#facts.live(stored);
    const { acceptRollback = false, rebootstrap = false } = pending?.request ?? {};
    if (rebootstrap) {
      federation = (await this.#rebootstrap(federation, as)) ?? federation;
    }
    const wish = { now: pending !== undefined, acceptRollback: acceptRollback || rebootstrap };
    let next: SPIFFEFederation | undefined;
    if (!wish.now && !this.#isDue(federation)) {
      const nowMs = this.#parts.clock.now();
      next = await this.#patch(federation, (current) => restingStatus(current, nowMs), as);
    } else if (sourceOf(federation) === 'static') next = await this.#takeIn(federation, as);
    else {
      const line = wish.now || hasAnswered(federation) ? this.#proven : this.#unproven;
      if (line.isFull) return { requeueAfterMs: comeAgainMs };
      const waits = !line.isFree;
      const fetched = await line.run(async () => {
        // A change during the wait triggers its own reconciliation.
        if (waits && (await this.#hasChanged(federation))) return 'changed';
        context.signal.throwIfAborted();
        return this.#fetch(federation, wish, context, as);
      });
      if (fetched === 'changed') return undefined;
      next = fetched;
    }
    if (pending !== undefined) await refreshDone(store, pending, fence);
    return next && this.#wakeFor(this.#facts.live(next));
  }

  async #hasChanged({ metadata }: SPIFFEFederation): Promise<boolean> {
    const current = await this.#federations.get(metadata.name);
    return current?.metadata.resourceVersion !== metadata.resourceVersion;
  }

  /** Due at once after a change of the spec; otherwise at the scheduled time, or if the clock was set back. */
  #isDue({ status, metadata }: SPIFFEFederation): boolean {
    const observed = findCondition(status?.conditions, 'Ready')?.observedGeneration;
    if (observed !== metadata.generation) return true;
    // A crash can lose facts. Older facts may then report success, but the conditions are right.
    const failed = findCondition(status?.conditions, 'EndpointReachable')?.status === 'False';
    if (failed && (status?.consecutiveFailures ?? 0) === 0) return true;
    if (status?.nextSyncAt === undefined) return false;
    const waitMs = Date.parse(status.nextSyncAt) - this.#parts.clock.now();
    return waitMs <= 0 || waitMs > refreshAfterSeconds(Number.MAX_SAFE_INTEGER) * 1000;
  }

  /** The next time at which the status changes without a fetch. */
  #wakeFor(federation: SPIFFEFederation): ReconcileResult | undefined {
    const nowMs = this.#parts.clock.now();
    const { nextSyncAt } = federation.status ?? {};
    const moments = momentsOf(federation).filter((moment) => moment > nowMs);
    if (nextSyncAt !== undefined) moments.push(Date.parse(nextSyncAt));
    if (moments.length === 0) return undefined;
    return { requeueAfterMs: Math.max(Math.min(...moments) - nowMs, 0) };
  }

  /** Replaces the held bundle with the bootstrap of the spec, and records it as a rotation. */
  async #rebootstrap(
    federation: SPIFFEFederation,
    as: WriteAs,
  ): Promise<SPIFFEFederation | undefined> {
    if (sourceOf(federation) !== 'https_spiffe') return federation;
    const nowMs = this.#parts.clock.now();
    const before = readHeld(federation, heldDocument(federation));
    const { status: _given, ...fresh } = federation;
    const after = readHeld(federation, heldDocument(fresh));
    const written = await this.#patch(
      federation,
      (current) => rebootstrappedStatus(current, nowMs),
      as,
      before !== undefined && after !== undefined && before.bundle.hash !== after.bundle.hash
        ? rotation(before, after)
        : undefined,
    );
    return written && this.#facts.live(written);
  }

  async #takeIn(federation: SPIFFEFederation, as: WriteAs): Promise<SPIFFEFederation | undefined> {
    const document = federation.spec.bundleSource.static?.bundle ?? '';
    const { generation } = federation.metadata;
    const nowMs = this.#parts.clock.now();
    const look = { generation, nowMs, nextSyncAtMs: undefined };
    try {
      // An operator may set an older one, so the sequence is not compared.
      const accepted = acceptFor(this.#parts, federation, document, undefined);
      return await this.#write(federation, { document, accepted, validator: undefined }, look, as);
    } catch (caught) {
      const failure = failureOf(caught, federation.metadata.name);
      if (failure.class === 'internal') throw caught;
      return this.#patch(federation, (current) => failedStatus(current, failure, look), as);
    }
  }

  async #fetch(
    federation: SPIFFEFederation,
    wish: Wish,
    context: ReconcileContext,
    as: WriteAs,
  ): Promise<SPIFFEFederation | undefined> {
    const { name, generation } = federation.metadata;
    const { clock } = this.#parts;
    const startedAt = clock.monotonic();
    const asked = await this.#ask(federation, wish, context.signal).then(
      (answer) => ({ answer, failure: undefined }),
      (caught: unknown) => {
        const failure = failureOf(caught, name);
        // An internal error, a lost lease or a shutdown is not a failure of the peer.
        if (failure.class === 'internal' || context.signal.aborted) throw caught;
        return { answer: undefined, failure };
      },
    );
    const nowMs = clock.now();
    this.#metrics.asked(name, clock.monotonic() - startedAt, asked.failure?.class);
    if (asked.failure !== undefined) {
      const { failure } = asked;
      context.log.warn('cannot fetch the bundle', { trustDomain: name, ...failure });
      if (isRefusal(failure)) this.#recordRefusal(federation, failure);
      const failures = federation.status?.consecutiveFailures ?? 0;
      const nextSyncAtMs = nowMs + this.#afterMs(retryAfterSeconds(failures));
      return this.#patch(
        federation,
        (current) => failedStatus(current, failure, { generation, nowMs, nextSyncAtMs }),
        as,
      );
    }
    const { answer } = asked;
    const hint = answer.accepted.refreshHintSeconds;
    const nextSyncAtMs = nowMs + this.#afterMs(refreshAfterSeconds(hint));
    return this.#write(federation, answer, { generation, nowMs, nextSyncAtMs }, as);
  }

  #ask(federation: SPIFFEFederation, wish: Wish, signal: AbortSignal): Promise<Answer> {
    return askEndpoint(this.#parts, federation, {
      // A request of an operator always fetches the whole document.
      validator: wish.now ? undefined : this.#facts.validator(federation),
      acceptRollback: wish.acceptRollback,
      signal,
    });
  }

  /** Records a change of authorities as a rotation. */
  async #write(
    federation: SPIFFEFederation,
    { document, accepted, validator }: Answer,
    look: Look,
    as: WriteAs,
  ): Promise<SPIFFEFederation | undefined> {
    const before = federation.status?.bundle;
    // Usually the document is the same, and is not parsed again.
    const held = before === document ? undefined : readHeld(federation, before);
    const rotated = held !== undefined && held.bundle.hash !== accepted.bundle.hash;
    const written = await this.#patch(
      federation,
      (current) => acceptedStatus(current, document, accepted, look),
      as,
      rotated ? rotation(held, accepted) : undefined,
    );
    if (written !== undefined && look.nextSyncAtMs !== undefined) {
      this.#facts.keepValidator(federation.metadata.name, document, validator);
    }
    return written;
  }

  /**
   * Discards the result of a fetch if the federation was recreated, or its kind of source changed, in
   * the meantime. It writes facts first, because watchers read them after the change. If nothing else
   * changed, it writes only facts.
   */
  async #patch(
    looked: SPIFFEFederation,
    next: (current: SPIFFEFederation) => FederationStatus,
    as: WriteAs,
    transition?: Parameters<ResourceClient<SPIFFEFederation>['patchStatus']>[3],
  ): Promise<SPIFFEFederation | undefined> {
    const { name, uid } = looked.metadata;
    let takeBack = (): void => undefined;
    try {
      return await this.#federations.patchStatus(
        name,
        (current) => {
          takeBack();
          takeBack = () => undefined;
          // Returns the status unchanged, so that nothing is written.
          const unchanged = current.status as FederationStatus;
          if (current.metadata.uid !== uid || sourceOf(current) !== sourceOf(looked)) {
            return unchanged;
          }
          const wanted = next(this.#facts.live(current));
          takeBack = this.#facts.keep(current, wanted);
          return sameState(wanted, unchanged) ? unchanged : wanted;
        },
        as,
        transition,
      );
    } catch (error) {
      takeBack();
      throw error;
    }
  }

  /** Records that an endpoint answered but was rejected, for later investigation. */
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

/** Whether the last fetch succeeded, as far as known. */
function hasAnswered({ status }: SPIFFEFederation): boolean {
  return status?.syncedAt !== undefined && (status.consecutiveFailures ?? 0) === 0;
}

function rotation(before: SpiffeBundle, after: SpiffeBundle): { verb: string; reason: string } {
  return {
    verb: `${spiffeFederationKind.auditName}.rotation`,
    reason: describeRotation(before.bundle, after.bundle),
  };
}

function retryAfterSeconds(failures: number): number {
  return Math.min(firstRetrySeconds * 2 ** Math.min(failures, 30), longestRetrySeconds);
}
