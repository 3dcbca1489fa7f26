// The sites of a run, their state that survives crashes, and the faults: crashes before and after
// any commit or message, partitions, clock changes, old copies of disks, and names that resolve to another
// site.

import assert from 'node:assert/strict';
import { TrustDomain } from '../../../src/api/values/trust-domain.ts';
import type { SeededRandom } from '../../../src/core/clock/seeded-random.ts';
import { SpiffeId } from '../../../src/api/values/spiffe-id.ts';
import { approvalTtlMs } from '../../../src/core/approvals/approval-object.ts';
import { parseEvent } from '../../../src/core/audit/event.ts';
import type { Batch } from '../../../src/core/store/driver.ts';
import type { MemoryDatabase } from '../../../src/core/store/memory/driver.ts';
import { paths } from '../../../src/peering/messages.ts';
import { isLive, type PeerState } from '../../../src/peering/peers/peer-states.ts';
import { defaultTrustSettings, type RotationSettings } from '../../../src/trust/settings.ts';
import { defaultPeeringSettings, type PeeringSettings } from '../../../src/peering/settings.ts';
import { type DiskFaults, noDiskFaults } from '../disk.ts';
import type { Process, Simulation } from '../simulation.ts';
import type { Sends } from '../site-transport.ts';
import { ApprovalWatch } from './approval-watch.ts';
import { LogWatch } from './log-watch.ts';
import { leaseMs, startThreadSite, type ThreadSite } from './site.ts';
import { ToldWaits } from './told-waits.ts';
import { WatchedDatabase } from './watched-database.ts';
import { Witness } from './witness.ts';

export interface WorldFaults {
  /** Of a process, at each commit or message of peering. */
  readonly deaths: number;
  readonly disk: DiskFaults;
}

/** What differs from scenario to scenario. */
export interface WorldOptions {
  readonly rotation?: RotationSettings;
  readonly settings?: PeeringSettings;
  readonly approvalTtlMs?: number;
  /** Called where a site that is up does not believe another one that answers as itself. */
  readonly refused?: (site: string, other: string, error: unknown) => void;
}

const longestRestMs = 3000;
/** Whatever ends trust is followed through within this long, while the process lives. */
const distrustWithinMs = 1000;
const lookEveryMs = 500;
const longestJumpMs = 12_000;

export class World {
  readonly simulation: Simulation;
  readonly names: readonly string[];
  readonly witness: Witness;
  readonly logs: LogWatch;
  readonly approvals = new ApprovalWatch();
  readonly toldWaits: ToldWaits;
  /** A site dies at this step of its own, counted from the start. */
  dieAt: { readonly name: string; steps: number } | undefined;
  /** Changes what a hostile site sends. */
  distort: Sends | undefined;
  /** How many answers all sites gave, by path. */
  readonly answers = new Map<string, number>();
  faults: WorldFaults;
  /** `from|host`: who answers there instead. */
  readonly hijacked = new Map<string, string>();
  readonly #keys: 'ed25519' | 'p256';
  readonly #databases: ReadonlyMap<string, WatchedDatabase>;
  readonly #sites = new Map<string, ThreadSite>();
  readonly #random: SeededRandom;
  readonly #jumpedMs = new Map<string, number>();
  /** Since when somebody is believed who should not be. */
  readonly #overdueMs = new Map<string, number>();

  readonly #options: WorldOptions;

  constructor(
    simulation: Simulation,
    names: readonly string[],
    faults: WorldFaults,
    options: WorldOptions = {},
  ) {
    this.#options = options;
    this.simulation = simulation;
    this.names = names;
    this.faults = faults;
    this.toldWaits = new ToldWaits(simulation);
    this.#random = simulation.random.fork('world');
    this.#keys = this.#random.chance(0.2) ? 'p256' : 'ed25519';
    this.witness = new Witness(
      () => simulation.clock.monotonic(),
      (what) => simulation.event(what),
    );
    this.logs = new LogWatch(() => simulation.clock.monotonic());
    this.#databases = new Map(
      names.map((name) => [
        name,
        new WatchedDatabase(simulation, faults.disk, {
          before: () => this.#dieAt(name, 'before a commit'),
          after: (batch) => {
            this.#hold(() => this.#see(name, batch));
            if (touchesPeering(batch)) this.#dieAt(name, 'after a commit');
          },
        }),
      ]),
    );
    this.#look();
  }

  /** The site, where it is up and ready. */
  site(name: string): ThreadSite | undefined {
    const site = this.#sites.get(name);
    return site?.process.alive === true ? site : undefined;
  }

  boot(process: Process): void {
    const { node } = process;
    const { simulation } = this;
    process.clock.jumpWall(this.#jumpedMs.get(node) ?? 0);
    const database = this.database(node);
    process.spawn(async () => {
      try {
        const site = await startThreadSite({
          simulation,
          process,
          database,
          keys: this.#keys,
          resolve: (from, host) => this.hijacked.get(`${from}|${host}`) ?? host,
          at: (who, step) => this.#dieAt(who.node, step),
          rotation: this.#options.rotation ?? defaultTrustSettings.rotation,
          settings: this.#options.settings ?? defaultPeeringSettings,
          approvalTtlMs: this.#options.approvalTtlMs ?? approvalTtlMs,
          sends: (who, to, path, body) => {
            if (who.alive) this.#hold(() => this.logs.sent(node, path, body));
            return this.distort?.(who, to, path, body) ?? body;
          },
          refused: (who, to, error) => {
            if (who.alive && this.names.includes(to)) this.#options.refused?.(node, to, error);
          },
          answered: (path, arrivedMs, status, id) =>
            this.#checkAnswer(process, path, arrivedMs, status, id),
        });
        if (!process.alive) return;
        const { problem } = site.audit;
        if (problem !== undefined && !this.logs.suspects.has(node)) throw problem;
        this.#sites.set(node, site);
        // Before anybody connects, and not only when the controllers have got their leases back.
        for (const other of this.names) this.#checkDistrust(site, other, 'at its start');
      } catch (error) {
        // A disk that fails keeps a site from starting; its supervisor tries again.
        if (this.faults.disk.full === 0 || !process.alive) throw error;
        this.crash(node, 500);
      }
    });
  }

  crash(name: string, restMs: number): void {
    const node = this.simulation.nodeOf(name);
    if (node === undefined || !node.up) return;
    this.#sites.delete(name);
    node.crash();
    this.simulation.clock.timer(restMs, () => node.start());
  }

  /** Sets the clock of a site, within what SVIDs that are dated back by a minute forgive. */
  jump(name: string, random: SeededRandom): void {
    const beforeMs = this.#jumpedMs.get(name) ?? 0;
    const afterMs = random.integer(-longestJumpMs, longestJumpMs);
    this.#jumpedMs.set(name, afterMs);
    this.simulation.event(`the clock of ${name} jumps by ${afterMs - beforeMs} ms`);
    this.simulation.nodeOf(name)?.process?.clock.jumpWall(afterMs - beforeMs);
  }

  /** What is durable at the site. */
  database(name: string): WatchedDatabase {
    return this.#databases.get(name) as WatchedDatabase;
  }

  /** While the site is down, its database is replaced. `origin` is that of its audit log from then on. */
  putBack(name: string, database: MemoryDatabase, origin = name): void {
    this.simulation.event(`${name} gets another copy of its disk`);
    const watched = this.database(name);
    watched.replace(database);
    const rows = watched.rows();
    this.witness.putBack(name, rows);
    this.approvals.putBack(name, rows);
    this.logs.putBack(name, database.head, origin, rows);
  }

  /** From here on, processes and disks fail like this. */
  disturb(faults: WorldFaults): void {
    this.faults = faults;
    for (const database of this.#databases.values()) database.faults = faults.disk;
  }

  /** From here on nothing fails any more, and everybody is up. */
  calm(): void {
    const { simulation } = this;
    simulation.event('calm');
    this.disturb({ deaths: 0, disk: noDiskFaults });
    this.dieAt = undefined;
    this.hijacked.clear();
    simulation.network.heal();
    simulation.network.faults = { ...simulation.network.faults, loss: 0, duplication: 0 };
    for (const name of this.names) simulation.nodeOf(name)?.start();
  }

  /** Whether the site believes what the other says. */
  believes(site: ThreadSite, other: string): boolean {
    return site.bundles.bundleFor(TrustDomain.parse(other)) !== undefined;
  }

  #see(name: string, batch: Batch): void {
    const events = batch.audit.map(({ body }) => parseEvent(body));
    this.witness.see(name, batch, events);
    this.approvals.see(name, batch, events);
    this.logs.see(name, batch);
  }

  #dieAt(name: string, step: string): void {
    const node = this.simulation.nodeOf(name);
    if (node === undefined || !node.up) return;
    const isDue = this.dieAt?.name === name && --this.dieAt.steps === 0;
    if (!isDue && !this.#random.chance(this.faults.deaths)) return;
    this.simulation.event(`${name} dies: ${step}`);
    this.crash(name, this.#random.integer(10, longestRestMs));
  }

  /** Who is not a live peer gets no answer, not even on a connection that was good before. */
  #checkAnswer(
    process: Process,
    path: string,
    arrivedMs: number,
    status: number,
    id: string | undefined,
  ): void {
    this.answers.set(path, (this.answers.get(path) ?? 0) + 1);
    if (path !== paths.heartbeat && path !== paths.announce) return;
    if (status < 200 || status >= 300) return;
    const peer =
      id === undefined
        ? undefined
        : this.witness.peer(process.node, SpiffeId.parse(id).trustDomain.name);
    // It may have come to an end while the answer was made.
    if (peer !== undefined && (isLive(peer.state) || peer.sinceMs * 1.001 + 1 >= arrivedMs)) return;
    if (peer === undefined && id === undefined) return;
    this.#hold(() =>
      assert.fail(
        `${process.node} answered ${path} of ${id}, which is ${peer?.state ?? 'no peer'}`,
      ),
    );
  }

  /** Every now and then: nobody is believed any longer who is gone, suspended or revoked. */
  #look(): void {
    this.simulation.clock.timer(lookEveryMs, () => {
      for (const name of this.names) {
        const site = this.site(name);
        if (site === undefined) continue;
        for (const other of this.names) {
          const key = `${name}/${site.process.life}|${other}`;
          const state = this.witness.peer(name, other)?.state;
          if (!isDistrusted(state) || !this.believes(site, other)) {
            this.#overdueMs.delete(key);
            continue;
          }
          const nowMs = this.simulation.clock.monotonic();
          const sinceMs = this.#overdueMs.get(key) ?? nowMs;
          this.#overdueMs.set(key, sinceMs);
          if (nowMs - sinceMs > distrustWithinMs) this.#checkDistrust(site, other, 'for too long');
        }
      }
      this.#look();
    });
  }

  #checkDistrust(site: ThreadSite, other: string, when: string): void {
    const state = this.witness.peer(site.name, other)?.state;
    if (other === site.name || !isDistrusted(state)) return;
    this.#hold(() =>
      assert.ok(
        !this.believes(site, other),
        `${site.name} believes ${other}, ${state ?? 'no peer'}, ${when}`,
      ),
    );
  }

  /** What is seen inside of a process that goes on regardless. */
  #hold(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.simulation.fail(error);
    }
  }
}

function isDistrusted(state: PeerState | undefined): boolean {
  return state === undefined || state === 'suspended' || state === 'revoked';
}

function touchesPeering({ changes }: Batch): boolean {
  return changes.some(({ collection }) =>
    /^(peering|federation|spiffe|approvals)/.test(collection),
  );
}

/** How long it may take until everything that was begun is done: leases, retries, and silence. */
export const settleWithinMs = 2 * leaseMs + 10_000 + 2 * longestJumpMs + 20_000;
