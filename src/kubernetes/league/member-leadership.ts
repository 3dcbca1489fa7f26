// The election of the leader of one member, on the Lease in that member. Every supervisor, and every replica
// of its site, takes part. The elections of members do not depend on each other.

import type { Clock, Random } from '../../core/clock/clock.ts';
import { timeOf } from '../../core/kube/cluster-time.ts';
import { KubeLeaseTable } from '../../core/kube/lease/kube-lease-table.ts';
import type { LeaseRecord } from '../../core/kube/lease/kube-lease.ts';
import { failureOf } from '../../core/kube/reflector/reflector-failure.ts';
import type { Log } from '../../core/log/log.ts';
import type { Leadership } from '../../core/reconcile/controller.ts';
import { LeaseLeadership } from '../../core/reconcile/lease-leadership.ts';
import type { LeaseState, LeaseTable, Store } from '../../core/store/store.ts';
import { epochKeys, MemberEpochs } from '../fencing/epochs.ts';
import type { ConnectedMember } from '../members/connected-member.ts';
import {
  HighestWritten,
  readHighestEpoch,
  type WrittenObjects,
  writtenObjects,
} from './written-epochs.ts';

/** The part of a member that its election uses. */
export type LedMember = WrittenObjects &
  Pick<ConnectedMember, 'clusterID' | 'client' | 'sawLease' | 'missedLease' | 'triedLease'>;

export interface MemberLeadershipOptions {
  readonly member: LedMember;
  readonly store: Store;
  readonly trustDomain: string;
  /** Unique to this process. */
  readonly holder: string;
  readonly namespace: string;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

export function memberLeadership(options: MemberLeadershipOptions): Leadership {
  return {
    campaign: async (lease, stopping, lead) => {
      const written = new HighestWritten(options.member);
      try {
        await electionOf(options, written).campaign(lease, stopping, lead);
      } finally {
        written.stop();
      }
    },
  };
}

/** Looks at a Lease below the epoch of a copy before it counts: the first one may have been on its way for long. */
const looksBehind = 2;

function electionOf(options: MemberLeadershipOptions, written: HighestWritten): Leadership {
  const { member, store, trustDomain, holder, namespace, leaseMs, clock, random, log } = options;
  const { client, clusterID } = member;
  const epochs = new MemberEpochs(store, clusterID, () => writtenObjects(member), trustDomain);
  let isRaising = false;
  let behind = 0;
  /** After a restore, the Lease has an epoch that was used before: its holder must take a new one. */
  const observe = async (name: string, record: LeaseRecord): Promise<void> => {
    behind = record.epoch < written.epoch ? behind + 1 : 0;
    if (isRaising) return;
    isRaising = true;
    try {
      const isBehind = behind >= looksBehind && record.floor < written.epoch;
      const floor = Math.max((await epochs.observe(record)) ?? 0, isBehind ? written.epoch : 0);
      if (floor > 0) {
        const { epoch } = record;
        log.warn('the epoch of a member went back', { cluster: clusterID, epoch, floor });
        await table.raiseFloor(name, floor);
      }
    } catch (error) {
      // It is tried again with the next look at the Lease.
      log.debug('cannot check the epoch of a member', { cluster: clusterID, error });
    } finally {
      isRaising = false;
    }
  };
  const table = new KubeLeaseTable({
    client,
    namespace,
    clock,
    keys: epochKeys,
    nextEpoch: async (seen) =>
      epochs.next(Math.max(seen, await readHighestEpoch(client, timeOf(client, clock)))),
    observed: (name, record) => {
      leases.isRead = true;
      const { epoch, mark } = record;
      member.sawLease({ holder: record.holder.slice(0, maxHolderLength), epoch }, mark);
      void observe(name, record);
    },
  });
  const leases = new HeardLeases(table, {
    failed: (error) => member.missedLease(error),
    tried: (error) => member.triedLease(error),
    // The floor that `observe` sets ends this term.
    isOld: (epoch) => epoch < epochs.seen,
  });
  return new LeaseLeadership({ leases, holder, durationMs: leaseMs, clock, random, log });
}

/** As in the status of `Federation`. Anybody with rights in the member can write anything into the Lease. */
const maxHolderLength = 512;

interface LeaseEars {
  /** Requests come every few seconds, so they show an outage before watches do. */
  readonly failed: (error: unknown) => void;
  /** The Lease was read. Whether it could be taken, where it is free: undefined if it could. */
  readonly tried: (error: unknown) => void;
  /** Whether this site has seen a higher epoch: then the Lease went back, and nobody may lead with this one. */
  readonly isOld: (epoch: number) => boolean;
}

/** A cluster that is back is noticed this soon. Each attempt costs one connection. */
const unreachableMs = 500;

class HeardLeases implements LeaseTable {
  readonly #table: KubeLeaseTable;
  readonly #ears: LeaseEars;
  /** Whether the last request got no answer. An API server that answers is not asked more often. */
  #isUnreachable = false;
  /** Whether the current request has read the Lease. */
  isRead = false;

  constructor(table: KubeLeaseTable, ears: LeaseEars) {
    this.#table = table;
    this.#ears = ears;
  }

  acquire(name: string, holder: string, durationMs: number): Promise<LeaseState | undefined> {
    return this.#heard(this.#table.acquire(name, holder, durationMs));
  }

  renew(
    name: string,
    holder: string,
    epoch: number,
    durationMs: number,
  ): Promise<LeaseState | undefined> {
    return this.#heard(this.#table.renew(name, holder, epoch, durationMs));
  }

  release(name: string, holder: string, epoch: number): Promise<void> {
    return this.#table.release(name, holder, epoch);
  }

  list(): Promise<readonly LeaseState[]> {
    return this.#table.list();
  }

  askAgainMs(name: string): number | undefined {
    const usualMs = this.#table.askAgainMs(name);
    return this.#isUnreachable ? Math.min(unreachableMs, usualMs ?? unreachableMs) : usualMs;
  }

  async #heard(request: Promise<LeaseState | undefined>): Promise<LeaseState | undefined> {
    this.isRead = false;
    try {
      const state = await request;
      this.#isUnreachable = false;
      this.#ears.tried(undefined);
      return state === undefined || this.#ears.isOld(state.epoch) ? undefined : state;
    } catch (error) {
      this.#isUnreachable = failureOf(error).reason === 'unreachable';
      if (this.isRead) this.#ears.tried(error);
      else this.#ears.failed(error);
      throw error;
    }
  }
}
