// The sidecar of a SPIRE server: keeps its relationships as the controller asks, and reports them. It reconciles
// when the request changes, after each refresh, and every minute, in case somebody else changed the server.

import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { Log } from '../../core/log/log.ts';
import { readRefreshFailure } from '../spire-endpoint/refresh-failure.ts';
import type {
  RelationshipsDocument,
  StatusDocument,
} from '../spire-relationships/sidecar-contract.ts';
import { type ApplyContext, messageOf, type RecordStore } from './apply-context.ts';
import { applyRelationships, applyWithholding } from './apply-relationships.ts';
import { compileStatus } from './compile-status.ts';
import { type Observed, planRelationships, planWithholding } from './plan-relationships.ts';
import { Fetches } from './fetches.ts';
import { excludeEntries, readmitEntries } from './limit-namespaces.ts';
import type { ReadRelationships } from './read-relationships.ts';
import { RefreshTimes } from './refresh-times.ts';
import type { SpireApi } from './spire-api.ts';

/** Where requests come from and where reports go. */
export interface SidecarMaps extends RecordStore {
  /** Undefined until it is known. */
  request(): ReadRelationships | undefined;
  /** The last report, of this sidecar or of one before. */
  report(): StatusDocument | undefined;
  saveReport(report: StatusDocument): Promise<void>;
}

export interface SidecarOptions {
  readonly spire: SpireApi;
  readonly maps: SidecarMaps;
  /** Of the SPIRE server, where it is known. Never rejects. */
  readonly version: () => Promise<string | undefined>;
  readonly clock: Clock;
  readonly log: Log;
}

const resyncMs = 60_000;
/** With limited namespaces: SPIRE does not say when there is a new entry. */
const limitedResyncMs = 10_000;
/** While the server does not answer, for example because it starts. */
const retryMs = { first: 500, most: 30_000 } as const;
/** Times of refreshes alone are reported this often: in steady state, the sidecar writes next to nothing. */
const reportEveryMs = 900_000;

const none: ReadonlyMap<never, never> = new Map<never, never>();

export class Sidecar {
  readonly #options: SidecarOptions;
  readonly #fetches: Fetches;
  readonly #times: RefreshTimes;
  readonly #errors = new Map<string, string>();
  #observed: Observed = { relationships: none, bundles: none };
  #foreign: readonly string[] = [];
  #problem: string | undefined;
  #failures = 0;
  #running: Promise<void> | undefined;
  #isDue = false;
  #isStopped = false;
  #timer: Timer | undefined;
  #reportedMs = Number.NEGATIVE_INFINITY;

  constructor(options: SidecarOptions) {
    this.#options = options;
    const { spire, clock } = options;
    this.#fetches = new Fetches(spire, clock);
    this.#times = new RefreshTimes(spire, this.#fetches, clock, () => this.wake());
  }

  /** Reconciles now, or once more after the current time. */
  wake(): void {
    this.#isDue = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  /** Resolves when nothing is under way any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#times.stop();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#isDue && !this.#isStopped) {
      this.#isDue = false;
      this.#timer?.cancel();
      const { log, clock } = this.#options;
      const request = this.#options.maps.request();
      if (request === undefined) return;
      try {
        this.#problem = request.problem;
        if (request.document !== undefined) await this.#reconcile(request.document);
        this.#failures = 0;
      } catch (error) {
        this.#failures++;
        this.#problem = messageOf(error);
        log.warn('cannot reconcile relationships', { error });
      }
      try {
        await this.#report(request);
      } catch (error) {
        this.#failures++;
        log.warn('cannot report the state of relationships', { error });
      }
      const isLimited = request.document?.namespaces !== undefined;
      const waitMs =
        this.#failures === 0
          ? isLimited
            ? limitedResyncMs
            : resyncMs
          : Math.min(retryMs.first * 2 ** (this.#failures - 1), retryMs.most);
      if (!this.#isStopped) this.#timer = clock.timer(waitMs, () => this.wake());
    }
  }

  async #reconcile(document: RelationshipsDocument): Promise<void> {
    const { spire, maps, clock, log } = this.#options;
    this.#recall();
    this.#errors.clear();
    const context: ApplyContext = {
      spire,
      store: maps,
      fetches: this.#fetches,
      namespaces: document.namespaces && new Set(document.namespaces),
      now: () => clock.now(),
      failed: (trustDomain, why) => {
        this.#errors.set(trustDomain, why);
        log.warn('cannot change a relationship', { trustDomain, why });
      },
    };
    const observed = await observe(spire);
    const excluded = await outcomeOf(excludeEntries(context, [...observed.bundles.keys()]));
    const misfits = this.#times.misfits();
    const doubts = { distrusted: this.#distrusted(), misfits: heldOf(misfits) };
    const plan = planRelationships(document, observed, maps.records(), doubts);
    this.#foreign = plan.foreign;
    // Entries that could not be changed keep no relationship from its removal.
    await applyRelationships(context, plan);
    if (excluded !== undefined) throw excluded;
    const isChanged =
      plan.create.length + plan.update.length + plan.setBundle.length + plan.remove.length > 0;
    this.#observed = isChanged ? await observe(spire) : observed;
    const foreign = new Set(plan.foreign);
    const ours = [...document.relationships, ...document.held]
      .map(({ trustDomain }) => trustDomain)
      .filter((name) => this.#observed.relationships.has(name) && !foreign.has(name));
    this.#times.follow(new Set(ours));
    for (const { trustDomain } of plan.update) this.#times.hurry(trustDomain);
    for (const {
      relationship: { trustDomain },
    } of plan.setBundle) {
      // An endpoint that served a wrong bundle would be asked again and again.
      if (misfits.has(trustDomain)) this.#times.replaced(trustDomain);
      else this.#times.hurry(trustDomain);
    }
    const facts = { lastRefresh: this.#times.all(), misfits: new Set(misfits.keys()) };
    const staleness = planWithholding(document, maps.records(), facts, clock.now());
    await applyWithholding(context, staleness);
    await readmitEntries(context, (name) => this.#observed.bundles.has(name));
  }

  /** A sidecar that starts knows the refreshes of the one before. */
  #recall(): void {
    for (const {
      trustDomain,
      lastRefresh,
      lastError,
      kept,
      refreshes,
    } of this.#options.maps.report()?.relationships ?? []) {
      if (kept) continue;
      this.#times.recall(trustDomain, {
        lastRefreshMs: lastRefresh === undefined ? undefined : Date.parse(lastRefresh),
        counts: refreshes,
        isMisfit: readRefreshFailure(lastError ?? '').cause === 'misfit',
      });
    }
  }

  /** Those whose endpoint presented a certificate that the bundle at the server does not verify. */
  #distrusted(): ReadonlySet<string> {
    return new Set(
      [...this.#observed.relationships.keys()].filter((name) =>
        ['unknown-authority', 'certificate'].includes(
          readRefreshFailure(this.#times.lastError(name) ?? '').cause,
        ),
      ),
    );
  }

  async #report(request: ReadRelationships): Promise<void> {
    const { maps, clock } = this.#options;
    const before = maps.report();
    const now = clock.now();
    const report = compileStatus({
      now,
      spireVersion: await this.#options.version(),
      problem: this.#problem,
      request,
      before,
      observed: this.#observed,
      foreign: new Set(this.#foreign),
      records: maps.records(),
      exclusions: maps.exclusions(),
      lastRefreshMs: (name) => this.#times.lastRefreshMs(name),
      lastError: (name) => this.#errors.get(name) ?? this.#times.lastError(name),
      refreshes: (name) => this.#times.counts(name),
    });
    const sinceMs = clock.monotonic() - this.#reportedMs;
    const isDue =
      sinceMs >= reportEveryMs || (sinceMs >= resyncMs && hasMoreErrors(before, report));
    if (!isDue && before !== undefined && isSameButTimes(before, report)) return;
    await maps.saveReport(report);
    this.#reportedMs = clock.monotonic();
  }
}

/** Undefined: it succeeded. */
const outcomeOf = (work: Promise<void>): Promise<Error | undefined> =>
  work.then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
  );

const heldOf = (misfits: ReadonlyMap<string, string>): ReadonlySet<string> =>
  new Set([...misfits].flatMap(([name, state]) => (state === 'held' ? [name] : [])));

async function observe(spire: SpireApi): Promise<Observed> {
  const [relationships, bundles] = await Promise.all([spire.relationships(), spire.bundles()]);
  return {
    relationships: new Map(relationships.map((each) => [each.trustDomain, each])),
    bundles: new Map(bundles.map((each) => [each.trustDomain, each])),
  };
}

/** The first refresh of a relationship counts as a change. */
function isSameButTimes(a: StatusDocument, b: StatusDocument): boolean {
  const timeless = ({
    spireVersion,
    problem,
    request,
    refusals,
    excludedEntries,
    relationships,
  }: StatusDocument): string =>
    JSON.stringify({
      spireVersion,
      problem,
      request,
      refusals,
      excludedEntries,
      relationships: relationships.map((each) => ({
        ...each,
        refreshes: undefined,
        lastRefresh: each.lastRefresh !== undefined,
      })),
    });
  return timeless(a) === timeless(b);
}

/** Failures count in alerts, so they are reported earlier than refreshes. */
function hasMoreErrors(a: StatusDocument | undefined, b: StatusDocument): boolean {
  const errorsOf = (document: StatusDocument | undefined): string =>
    JSON.stringify(document?.relationships.map(({ refreshes }) => refreshes?.errors ?? {}));
  return errorsOf(a) !== errorsOf(b);
}
