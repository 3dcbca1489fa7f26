// One cluster that was removed from Federation: gives other sites time to lead it. If none does, the site leads it
// once more and removes its copies. It tries again for a day, and says why they are still there.

import { type Clock, sleep } from '../../core/clock/clock.ts';
import { linkedSignal } from '../../core/clock/linked-signal.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { failureOf } from '../../core/kube/reflector/reflector-failure.ts';
import type { Log } from '../../core/log/log.ts';
import type { Leadership } from '../../core/reconcile/controller.ts';
import { claimsPath } from '../client/cluster-facts.ts';
import type { LedMember } from '../league/member-leadership.ts';
import type { MemberConnector } from '../members/connect-member.ts';
import {
  type Finding,
  identityOf,
  identityProblem,
  readClaim,
  type ReflectedClaim,
} from '../members/identity.ts';
import type { MemberLeader } from '../members/member.ts';
import { leaseName } from '../names.ts';
import { explainFailure, withRemedy } from './explain-leaving.ts';
import type { MemberRecord } from './member-record.ts';
import type { FarewellTerm } from './farewell-rounds.ts';

/** What is left after a day is for the operator: the cluster may not exist any more. */
export const giveUpMs = 86_400_000;
const firstRetryMs = 1000;
const longestRetryMs = 300_000;

export type Outcome = 'CopiesRemoved' | 'OtherSiteLeads' | 'GaveUp';

export interface LeavingMemberOptions {
  readonly record: MemberRecord & Required<Pick<MemberRecord, 'leaving'>>;
  readonly connector: MemberConnector;
  /** Whether it is the home cluster. */
  readonly isHome: () => boolean;
  readonly leadershipOf: (member: LedMember) => Leadership;
  /** Of this site. */
  readonly trustDomain: string;
  /** Removes what the site wrote. Repeated after failures. */
  readonly clean: (term: FarewellTerm) => Promise<void>;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Its finding changed. */
  readonly changed: () => void;
  /** Called once. It may reject, and is then called again. */
  readonly ended: (outcome: Outcome) => Promise<void>;
}

export class LeavingMember {
  readonly clusterID: string;
  readonly record: LeavingMemberOptions['record'];
  readonly #options: LeavingMemberOptions;
  readonly #stopping = new AbortController();
  #wake: (() => void) | undefined;
  #finding: Finding;
  #running: Promise<void> = Promise.resolve();

  constructor(options: LeavingMemberOptions) {
    this.#options = options;
    this.record = options.record;
    this.clusterID = options.record.settings.clusterID;
    this.#finding =
      options.record.leaving.cause === 'Removed'
        ? {
            reason: 'Removing',
            message: 'This site removes its copies, unless another site leads the cluster.',
          }
        : withRemedy(this.clusterID, {
            reason: 'FederationReplaced',
            message: `Federation of the home cluster was created again or restored, and no longer lists ${this.clusterID}. Add it to members again if it is one.`,
          });
  }

  /** Why it still has copies, and what to do. */
  get finding(): Finding {
    return this.#finding;
  }

  start(): void {
    this.#running = this.#run(this.#stopping.signal).catch((error: unknown) => {
      if (!this.#stopping.signal.aborted) {
        this.#options.log.error('cannot take leave of a member', {
          cluster: this.clusterID,
          error,
        });
      }
    });
  }

  /** Gives up its Lease. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('no member that leaves any more'));
    await this.#running;
  }

  /** Something changed that an attempt depends on, such as its credential. */
  retryNow(): void {
    this.#wake?.();
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, leaseMs } = this.#options;
    const { sinceMs, cause } = this.record.leaving;
    if (cause === 'Removed') await sleep(clock, leaseMs, signal);
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(retryMs * 2, longestRetryMs)) {
      const leftMs = sinceMs + giveUpMs - clock.now();
      try {
        if (leftMs <= 0) return await this.#end('GaveUp');
        if (cause === 'Removed') return await this.#end(await this.#attempt(signal));
      } catch (error) {
        signal.throwIfAborted();
        this.#fail(error);
      }
      await this.#rest(cause === 'Removed' ? Math.min(retryMs, leftMs) : leftMs, signal);
    }
  }

  #fail(error: unknown): void {
    const found = error instanceof LeavingProblem ? error.finding : explainFailure(error);
    const { reason } = this.#finding;
    this.#finding = withRemedy(this.clusterID, found);
    if (reason === found.reason) return;
    this.#options.log.warn('cannot remove the copies of a member that left; will retry', {
      cluster: this.clusterID,
      why: found.message,
    });
    this.#options.changed();
  }

  async #end(outcome: Outcome): Promise<void> {
    await this.#options.ended(outcome);
    this.#options.log.info('a member left', { cluster: this.clusterID, outcome });
  }

  /** Until the time has passed, or `retryNow`. */
  async #rest(delayMs: number, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    const { signal: either, unlink } = linkedSignal(woken.signal, signal);
    await sleep(this.#options.clock, Math.max(delayMs, firstRetryMs), either).catch(
      () => undefined,
    );
    unlink();
    this.#wake = undefined;
    signal.throwIfAborted();
  }

  async #attempt(signal: AbortSignal): Promise<Outcome> {
    const { connector, isHome } = this.#options;
    const found = connector.find(this.record.settings, isHome());
    if (!('key' in found)) throw new LeavingProblem(found);
    const client = found.open();
    try {
      await this.#checkIdentity(client);
      return await this.#lead(client, signal);
    } catch (error) {
      if (failureOf(error).reason === 'certificate') found.doubt?.();
      throw error;
    } finally {
      client.close();
    }
  }

  /** Before the first write: another cluster may have the address now. */
  async #checkIdentity(client: KubeClient): Promise<void> {
    const identity = identityOf((await client.list<ReflectedClaim>(claimsPath)).map(readClaim));
    // It may belong to another cluster set by now.
    const expected = { clusterID: this.clusterID, clusterSet: '' };
    const problem = identityProblem(expected, { ...identity, clusterSets: [] }, undefined);
    if (problem !== undefined) throw new LeavingProblem(problem);
  }

  async #lead(client: KubeClient, signal: AbortSignal): Promise<Outcome> {
    const { leadershipOf, clean, trustDomain } = this.#options;
    const end = new AbortController();
    const { signal: stopping, unlink } = linkedSignal(end.signal, signal);
    let outcome: Outcome | undefined;
    let failure: unknown;
    const others = new OtherLeaders(trustDomain);
    const leadership = leadershipOf({
      clusterID: this.clusterID,
      client,
      services: noObjects,
      slices: noObjects,
      policyRecords: noObjects,
      serviceImports: noObjects,
      externalEntities: noObjects,
      sawLease: (leader, mark) => {
        if (!others.isAlive(leader, mark)) return;
        outcome ??= 'OtherSiteLeads';
        end.abort();
      },
      missedLease: (error) => {
        failure = error;
        end.abort();
      },
      triedLease: (error) => {
        if (error === undefined) return;
        failure = error;
        end.abort();
      },
    });
    await leadership.campaign(leaseName, stopping, async (term) => {
      try {
        await clean({ client, ...term });
        outcome = 'CopiesRemoved';
      } catch (error) {
        failure = error;
      }
      end.abort();
    });
    unlink();
    signal.throwIfAborted();
    if (outcome !== undefined) return outcome;
    throw failure ?? new Error('the Lease was lost');
  }
}

/** A finding of the site about a member. */
class LeavingProblem extends Error {
  override readonly name = 'LeavingProblem';
  readonly finding: Finding;

  constructor(finding: Finding) {
    super(finding.message);
    this.finding = finding;
  }
}

/** No reflectors run: a consistent read finds the highest epoch. */
const noObjects = { objects: () => [], onChange: () => () => undefined };

/** Tells a leader of another site that renews its Lease from one that died. */
class OtherLeaders {
  readonly #trustDomain: string;
  #seen: { readonly holder: string; readonly mark: string } | undefined;

  constructor(trustDomain: string) {
    this.#trustDomain = trustDomain;
  }

  isAlive({ holder }: MemberLeader, mark: string): boolean {
    const known = this.#seen;
    this.#seen = { holder, mark };
    const isOther = holder !== '' && !holder.startsWith(`${this.#trustDomain}/`);
    return isOther && known?.holder === holder && known.mark !== mark;
  }
}
