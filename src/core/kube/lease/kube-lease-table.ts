// A Lease object of a cluster as a `LeaseTable`, so that `holdLease` elects a leader among processes that
// share no store.
//
// Clocks of holders are never compared: like client-go, a process takes the Lease only after it has seen it
// unchanged for its whole duration by its own clock. Every write needs the version that was read.

import type { Clock } from '../../clock/clock.ts';
import type { LeaseState, LeaseTable } from '../../store/store.ts';
import type { KubeClient } from '../kube-client.ts';
import { KubeStatusError, unreachable } from '../kube-errors.ts';
import { kubePath } from '../kube-path.ts';
import {
  type EpochKeys,
  type KubeLease,
  leaseRecord,
  type LeaseRecord,
  releasedLease,
  renewedLease,
  takenLease,
} from './kube-lease.ts';

export interface KubeLeaseTableOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly keys: EpochKeys;
  /**
   * The epoch of a new term. It must exceed `seen`, the highest epoch in the Lease, and every epoch that was
   * ever used. It is recorded before this resolves.
   */
  readonly nextEpoch: (seen: number) => Promise<number>;
  /** Hears of every record that was read or written. Must not throw. */
  readonly observed?: (name: string, record: LeaseRecord) => void;
}

interface Sighting {
  readonly record: LeaseRecord;
  /** Monotonic: when this process first saw this record. */
  readonly atMs: number;
}

/** How often a process that waits looks at the Lease, as a share of its duration. As in client-go: 2 of 15 seconds. */
const lookAfter = 2 / 15;

export class KubeLeaseTable implements LeaseTable {
  readonly #options: KubeLeaseTableOptions;
  readonly #seen = new Map<string, Sighting>();

  constructor(options: KubeLeaseTableOptions) {
    this.#options = options;
  }

  async acquire(name: string, holder: string, durationMs: number): Promise<LeaseState | undefined> {
    const lease = await this.#read(name);
    const { record, atMs } = this.#see(name, lease);
    if (record.holder === holder && record.epoch > record.floor) {
      return this.renew(name, holder, record.epoch, durationMs);
    }
    const waitedMs = this.#options.clock.monotonic() - atMs;
    const isFree = record.holder === '' || record.holder === holder;
    if (!isFree && waitedMs < record.durationMs) return undefined;
    const epoch = await this.#options.nextEpoch(Math.max(record.epoch, record.floor));
    const change = { holder, epoch, durationMs, nowMs: this.#options.clock.now() };
    return this.#write(name, takenLease(lease, change, this.#options.keys));
  }

  async renew(
    name: string,
    holder: string,
    epoch: number,
    durationMs: number,
  ): Promise<LeaseState | undefined> {
    const lease = await this.#read(name);
    const { record } = this.#see(name, lease);
    if (record.holder !== holder || record.epoch !== epoch || record.floor >= epoch)
      return undefined;
    const nowMs = this.#options.clock.now();
    const leaseDurationSeconds = Math.ceil(durationMs / 1000);
    return this.#write(
      name,
      renewedLease({ ...lease, spec: { ...lease.spec, leaseDurationSeconds } }, nowMs),
    );
  }

  async release(name: string, holder: string, epoch: number): Promise<void> {
    const lease = await this.#read(name);
    const { record } = this.#see(name, lease);
    if (record.holder !== holder || record.epoch !== epoch) return;
    await this.#write(name, releasedLease(lease, this.#options.clock.now()));
  }

  /** The holder of a smaller or equal epoch loses the Lease with its next renewal. */
  async raiseFloor(name: string, floor: number): Promise<void> {
    const lease = await this.#read(name);
    const { keys } = this.#options;
    if (leaseRecord(lease, keys).floor >= floor) return;
    const annotations = { ...lease.metadata.annotations, [keys.floor]: String(floor) };
    await this.#write(name, { ...lease, metadata: { ...lease.metadata, annotations } });
  }

  list(): Promise<readonly LeaseState[]> {
    return Promise.resolve(
      [...this.#seen].map(([name, { record }]) => this.#stateOf(name, record)),
    );
  }

  /** Sooner than the store's leases: looking costs this site nothing, and a dead leader is replaced when its Lease ends. */
  askAgainMs(name: string): number | undefined {
    const seen = this.#seen.get(name);
    if (seen === undefined) return undefined;
    const { record, atMs } = seen;
    const lookMs = record.durationMs * lookAfter;
    const leftMs = atMs + record.durationMs - this.#options.clock.monotonic();
    // One that ended could not be taken: there is no hurry any more.
    return leftMs <= 0 ? lookMs : Math.min(lookMs, Math.max(leftMs, lookMs / 10));
  }

  /** An empty Lease where there is none: writing it creates it. */
  async #read(name: string): Promise<KubeLease> {
    const { client, namespace } = this.#options;
    try {
      return await client.get<KubeLease>(
        kubePath`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`,
      );
    } catch (error) {
      if (!isStatus(error, 404)) throw error;
      const metadata = { name, namespace };
      return { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata };
    }
  }

  /** Undefined where another process was faster. */
  async #write(name: string, lease: KubeLease): Promise<LeaseState | undefined> {
    const { client, namespace, clock } = this.#options;
    const collection = kubePath`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    // The lists for the next epoch may have taken longer than the Lease lasts.
    const sentMs = clock.monotonic();
    try {
      const written = await (lease.metadata.resourceVersion === undefined
        ? client.create<KubeLease>(collection, lease)
        : client.replace<KubeLease>(`${collection}/${name}`, lease));
      const { record } = this.#see(name, written);
      const asked = leaseRecord(lease, this.#options.keys);
      if (record.holder !== asked.holder || record.epoch !== asked.epoch) {
        throw unreachable(
          `with the Lease ${namespace}/${name}`,
          'protocol',
          'it answered with another Lease than it was sent',
        );
      }
      return { ...this.#stateOf(name, record), sentMs };
    } catch (error) {
      // Created, changed or deleted by another one meanwhile.
      if (isStatus(error, 409) || isStatus(error, 404)) return undefined;
      throw error;
    }
  }

  #see(name: string, lease: KubeLease): Sighting {
    const record = leaseRecord(lease, this.#options.keys);
    const known = this.#seen.get(name);
    const atMs = known?.record.mark === record.mark ? known.atMs : this.#options.clock.monotonic();
    const seen = { record, atMs };
    this.#seen.set(name, seen);
    this.#options.observed?.(name, record);
    return seen;
  }

  #stateOf(name: string, { holder, epoch, durationMs }: LeaseRecord): LeaseState {
    return { name, holder, epoch, expiresAtMs: this.#options.clock.now() + durationMs };
  }
}

function isStatus(error: unknown, status: number): boolean {
  return error instanceof KubeStatusError && error.status === status;
}
