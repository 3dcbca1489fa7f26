// The agent of a machine: holds the state that the site sends, starts the parts of the planes on it, and
// keeps its own SVID valid. It runs until it is interrupted, or until the site no longer accepts it.

import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { AgentLink, type AgentReport, type SiteStream } from '../../core/agent/agent-link.ts';
import type { AgentPart, RunningAgentPart } from '../../core/agent/agent-part.ts';
import { HeldState, type NextState } from '../../core/agent/held-state.ts';
import { ReplicaStore } from '../../core/agent/replica-store.ts';
import type { AgentItem } from '../../core/agent/state.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import { Health } from '../../core/metrics/health.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Sealer } from '../../core/store/sealing/sealer.ts';
import type { JoinFolder, Membership } from '../client/join-folder.ts';
import { membershipOf } from '../client/join-renewal.ts';
import { parseSiteItem, siteCollection } from '../agents/site-item.ts';
import { AgentCache, type KeptContact } from './agent-cache.ts';
import type { AgentFolder } from './agent-folder.ts';
import { type AgentCounters, agentMetrics } from './agent-metrics.ts';
import { type AgentStatus, linkFields } from './agent-status.ts';
import { ownLeaf } from './own-svid.ts';

export interface AgentProcessParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly version: string;
  readonly host: string;
  readonly folder: AgentFolder;
  readonly identity: JoinFolder;
  /** The URL of the site, if it is not the one in the folder. */
  readonly server: string | undefined;
  /** Opens a stream to the verified site. */
  readonly connect: (signal: AbortSignal) => Promise<SiteStream>;
  /** Gets a new SVID from the site. */
  readonly renew: () => Promise<unknown>;
  readonly parts: readonly AgentPart[];
  /** Undefined where the sealing key would be in the data folder. */
  readonly sealer: Sealer | undefined;
  /** What the operator should know for as long as the agent runs. */
  readonly problems: readonly string[];
}

export class AgentProcess {
  readonly health = new Health();
  readonly link: AgentLink;
  readonly #parts: AgentProcessParts;
  readonly #membership: Membership;
  readonly #trustDomain: TrustDomain;
  readonly #cache: AgentCache;
  readonly #state: HeldState;
  readonly #replica: ReplicaStore;
  readonly #counters: AgentCounters;
  /** Before this process. */
  readonly #before: KeptContact;
  /** Monotonic. */
  readonly #startedAt: number;
  readonly #startedFromCache: boolean;
  readonly #serving = Promise.withResolvers<void>();
  #running: readonly RunningAgentPart[] | undefined;
  #svidNotAfterMs: number;
  /** The SVID with which the stream was opened. */
  #streamSerial: string | undefined;

  private constructor(
    parts: AgentProcessParts,
    cache: AgentCache,
    state: HeldState,
    replica: ReplicaStore,
    before: KeptContact,
  ) {
    const { clock, random, log, version, host, identity, metrics } = parts;
    this.#parts = parts;
    this.#membership = membershipOf(identity);
    this.#trustDomain = TrustDomain.parse(this.#membership.trustDomain);
    this.#svidNotAfterMs = ownLeaf(identity).notAfterMs;
    this.#cache = cache;
    this.#state = state;
    this.#replica = replica;
    this.#before = before;
    this.#startedAt = clock.monotonic();
    this.#startedFromCache = state.size > 0;
    this.link = new AgentLink({
      clock,
      random,
      log,
      version,
      host,
      state,
      connect: (signal) => {
        this.#streamSerial = ownLeaf(identity).serialHex;
        return parts.connect(signal);
      },
      problemOf: (items) => this.#problemOf(items),
      apply: (next) => this.#apply(next),
      keep: () => this.#keep(),
      denied: (error) => this.#denied(error),
      report: () => this.report(),
    });
    this.#counters = agentMetrics(metrics, {
      connected: () => this.link.status.connected,
      lastContactMs: () => this.lastContactMs,
      svidNotAfterMs: () => this.#svidNotAfterMs,
      keepsSvids: parts.sealer !== undefined,
    });
    this.link.onChange(() => this.#changed());
    this.health.add('state', () =>
      this.#running === undefined ? 'the site has not sent a state yet' : undefined,
    );
  }

  /** Starts from the cached state, if there is one. */
  static async start(parts: AgentProcessParts): Promise<AgentProcess> {
    const { clock, log, folder, identity } = parts;
    const owner = membershipOf(identity).spiffeId;
    const cache = new AgentCache({ folder, log, owner });
    const { floor, contact, state: kept } = cache.load();
    const trustDomain = TrustDomain.parse(membershipOf(identity).trustDomain);
    const problem = kept && itemProblem(parts.parts, kept.items, trustDomain);
    if (problem !== undefined) {
      log.error('cannot use the cached state; the agent starts without it', { why: problem });
    }
    const usable = problem === undefined ? kept : undefined;
    const state = new HeldState(
      floor && { floor, ...(usable === undefined ? {} : { state: usable }) },
    );
    const sections = parts.parts.map(({ section }) => section);
    const replica = await ReplicaStore.open(clock, sections, state.items);
    const process = new AgentProcess(parts, cache, state, replica, contact);
    if (state.size > 0) await process.#startParts();
    return process;
  }

  /** Resolves when the parts run. */
  get serving(): Promise<void> {
    return this.#serving.promise;
  }

  /** Wall time; undefined: never. */
  get lastContactMs(): number | undefined {
    return this.link.status.lastContactMs ?? this.#before.lastContactMs;
  }

  report(): AgentReport {
    const reports = (this.#running ?? []).map((one) => one.report());
    const sum = (of: 'entries' | 'workloads'): number =>
      reports.reduce((total, report) => total + report[of], 0);
    return {
      entries: sum('entries'),
      workloads: sum('workloads'),
      problems: [
        ...reports.flatMap(({ problems }) => problems),
        ...this.#cache.problems,
        ...(this.#isWithoutKeys() ? [withoutKeys] : []),
        ...this.#parts.problems,
      ],
    };
  }

  get #server(): string {
    return this.#parts.server ?? this.#membership.server;
  }

  status(): Omit<AgentStatus, 'pid' | 'startedAt'> {
    const { version } = this.#parts;
    const { spiffeId } = this.#membership;
    const { status } = this.link;
    const denies = status.connected
      ? []
      : (this.#running ?? []).flatMap((part) => part.deniesFromMs?.() ?? []);
    return {
      version,
      spiffeId,
      server: this.#server,
      ...linkFields(status, this.lastContactMs),
      svidNotAfter: timestamp(this.#svidNotAfterMs),
      ...(denies.length === 0 ? {} : { deniesAfter: timestamp(Math.min(...denies)) }),
      ...this.report(),
      endpoints: Object.assign({}, ...(this.#running ?? []).map(({ endpoints }) => endpoints)),
    };
  }

  /** Resolves when the newest state is on the disk. */
  written(): Promise<void> {
    return this.#cache.close();
  }

  /** The SVID of the agent was renewed: the stream ends with the certificate that it was opened with. */
  renewed(): void {
    this.#hasRenewed();
    this.link.reconnect();
  }

  /**
   * The site renews only for the SVID of the stream. `hansa join renew` may have stored a newer one in
   * the folder of this agent.
   */
  renewalFailed(): void {
    this.#counters.renewed('failed');
    if (ownLeaf(this.#parts.identity).serialHex !== this.#streamSerial) this.link.reconnect();
  }

  /** Stores the time of the last contact, for a restart. */
  keepContact(): void {
    this.#cache.contact(this.#contact);
  }

  /** The site no longer accepts this agent: its workloads lose their SVIDs at once. */
  async revoke(isFinal: boolean): Promise<void> {
    const { parts, log } = this.#parts;
    const survives = (item: AgentItem): boolean =>
      parts.find(({ section }) => section === item.section)?.survives?.(item) === true;
    const gone = [...this.#state.items].filter((item) => !survives(item));
    this.#state.drop();
    await this.#replica.apply({ put: [], delete: gone });
    for (const part of this.#running ?? []) await part.revoke(isFinal);
    await this.#cache.drop(this.#contact);
    if (gone.length > 0) log.error('the SVIDs of all workloads were withdrawn');
  }

  async stop(): Promise<void> {
    for (const part of this.#running ?? []) await part.stop();
    await this.#cache.close();
    this.keepContact();
    await this.#replica.store.close();
  }

  #problemOf(items: readonly AgentItem[]): string | undefined {
    return itemProblem(this.#parts.parts, items, this.#trustDomain);
  }

  /** Rejects where the parts cannot start: the agent then ends, as it does with a state from the cache. */
  async #apply(next: NextState): Promise<void> {
    await this.#replica.apply(next);
    this.#counters.applied();
    for (const { collection, value } of next.put) {
      if (collection === siteCollection) this.#keepBundle(value);
    }
    if (this.#running === undefined) await this.#startParts();
  }

  async #keep(): Promise<void> {
    const { version, items } = this.#state;
    if (version !== undefined) await this.#cache.keep({ version, items: [...items] });
  }

  /** The site verifies with this bundle at the next connection, so it follows rotations. */
  #keepBundle(value: Buffer): void {
    const { identity, log } = this.#parts;
    try {
      identity.keepBundle(parseSiteItem(value, this.#trustDomain).bundle);
    } catch (error) {
      log.error('cannot store the bundle of the site', { error });
    }
  }

  async #startParts(): Promise<void> {
    const { clock, random, log, metrics, version, folder, sealer } = this.#parts;
    const { spiffeId } = this.#membership;
    const running: RunningAgentPart[] = [];
    for (const part of this.#parts.parts) {
      running.push(
        await part.start({
          trustDomain: this.#trustDomain,
          agent: spiffeId.slice(spiffeId.lastIndexOf('/') + 1),
          version,
          clock,
          random,
          log,
          metrics,
          store: this.#replica.store,
          link: this.link,
          offlineMs: () => this.#offlineMs(),
          dataDir: folder.path,
          secretsDir: folder.secrets,
          sealer,
        }),
      );
    }
    this.#running = running;
    for (const part of running) {
      for (const [name, check] of part.health ?? []) this.health.add(name, check);
    }
    this.#serving.resolve();
  }

  get #contact(): KeptContact {
    return { lastContactMs: this.lastContactMs, offlineMs: this.#offlineMs() };
  }

  /** Wall time can be set back, and monotonic time stops while the machine is suspended: the longer one counts. */
  #offlineMs(): number | undefined {
    if (this.link.status.connected) return undefined;
    const { clock } = this.#parts;
    const { silentMs } = this.link;
    const countedMs = silentMs ?? this.#offlineBeforeMs() + clock.monotonic() - this.#startedAt;
    return Math.max(countedMs, clock.now() - (this.lastContactMs ?? clock.now()));
  }

  /** Before this process. A state from the cache says nothing about the time of the last contact. */
  #offlineBeforeMs(): number {
    const { lastContactMs, offlineMs = 0 } = this.#before;
    if (lastContactMs === undefined) return this.#startedFromCache ? Infinity : 0;
    return this.#parts.clock.now() + clockStepMs < lastContactMs ? Infinity : offlineMs;
  }

  /** After a restart without the site, and without kept keys. */
  #isWithoutKeys(): boolean {
    const { connected, lastContactMs } = this.link.status;
    const isDark = !connected && lastContactMs === undefined;
    return isDark && this.#startedFromCache && this.#parts.sealer === undefined;
  }

  #changed(): void {
    if (this.link.status.connected) this.#counters.connected();
    else this.#counters.disconnected();
    this.keepContact();
  }

  #hasRenewed(): void {
    this.#counters.renewed('ok');
    this.#svidNotAfterMs = ownLeaf(this.#parts.identity).notAfterMs;
  }

  /** Only an answer of the verified site comes here. */
  async #denied(error: HansaError): Promise<void> {
    const { log } = this.#parts;
    // The site does not know this agent (any more).
    if (error.code === 'HANSA_UNAUTHENTICATED') throw await this.over(error);
    try {
      await this.#parts.renew();
      this.#hasRenewed();
      log.info('the site refused the SVID of this agent, and gave it a new one');
    } catch (caught) {
      const refusal = toHansaError(caught);
      this.renewalFailed();
      if (refusal.code === 'HANSA_FORBIDDEN') throw await this.over(refusal);
      log.error('the site refuses this agent for now', { error: refusal.message });
      // Its peer is suspended, for example. A site that cannot be reached or verified has not decided.
      if (refusal.code === 'HANSA_UNAVAILABLE') await this.revoke(false);
    }
  }

  /** The error with which the agent ends, after it has withdrawn everything. */
  async over(error: HansaError): Promise<HansaError> {
    await this.revoke(true);
    const { folder } = this.#parts;
    const { spiffeId, trustDomain } = this.#membership;
    return new HansaError(
      error.general,
      `${trustDomain} (${this.#server}) no longer accepts ${spiffeId}: ${error.message} The agent withdrew the SVIDs of its workloads and stopped. To join again, remove ${folder.path} and start with a new token.`,
      { cause: error },
    );
  }
}

/** Clocks are corrected by so much. A clock further in the past is wrong. */
const clockStepMs = 60_000;

const withoutKeys =
  'The site was not reachable when this agent started, and the agent keeps keys of workloads only in memory. It serves bundles, but no SVIDs, until it reaches the site. To keep sealed SVIDs for a restart, set --key-file to a path outside the data folder.';

function itemProblem(
  parts: readonly AgentPart[],
  items: readonly AgentItem[],
  trustDomain: TrustDomain,
): string | undefined {
  const bySection = new Map(parts.map((part) => [part.section, part]));
  for (const item of items) {
    const problem = bySection.get(item.section)?.problemOf?.(item, trustDomain);
    if (problem !== undefined) return `${item.collection}/${item.name}: ${problem}`;
  }
  return undefined;
}
