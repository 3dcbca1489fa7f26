// What the DNS part of a member controller knows in one term: who asks for which name, and when it wrote last.
// It is forgotten when the term ends.

import type { Clock } from '../../core/clock/clock.ts';
import type { SourceSink } from '../../core/reconcile/source.ts';
import { annotatedCopies } from '../copies/annotated-copies.ts';
import type { CopyRules } from '../copies/copy-rules.ts';
import { HostNames } from '../copies/host-names.ts';
import { MemberPacer, type PartPacer } from '../copies/member-pacer.ts';
import { type LeftOut, nothingLeftOut, type OriginUsage } from '../copies/origin-usage.ts';
import type { SyncedMember, SyncedMembers } from '../copies/synced-member.ts';
import type { NameSettings } from './asked-names.ts';
import { NameClaims } from './name-claims.ts';

export interface DnsOptions {
  /** The target: the member whose copies get names. */
  readonly member: SyncedMember;
  readonly members: SyncedMembers;
  readonly clock: Clock;
  /** The system namespace, for global copies. */
  readonly namespace: string;
  readonly settings: NameSettings;
  /** The addresses of the name of a load balancer. Must end in bounded time. */
  readonly lookUp: (name: string) => Promise<readonly string[]>;
  /** Of all parts of this member. Default: one for this part. */
  readonly pacer?: Pick<MemberPacer, 'join'> | undefined;
}

/** Between two writes of one Service, so that a flapping endpoint does not become a flood of writes. */
const pauseMs = 1000;
/** So many are remembered. */
const mostWrites = 10_000;

export class DnsTerm {
  readonly options: DnsOptions;
  readonly sink: Pick<SourceSink, 'add'>;
  readonly rules: CopyRules;
  readonly claims = new NameClaims();
  readonly hostNames: HostNames;
  readonly pacer: PartPacer;
  /** What each cluster gives others, by cluster ID. */
  readonly usages = new Map<string, OriginUsage>();
  /** What exceeded the limits of a cluster at the last look, by cluster ID. */
  readonly leftOut = new Map<string, LeftOut>();
  /** The clusters whose nodes a name leads to, by the key of the federated Service. */
  readonly nodeClusters = new Map<string, ReadonlySet<string>>();
  /** In monotonic time, by what was written. */
  readonly #wroteMs = new Map<string, number>();

  constructor(options: DnsOptions, sink: Pick<SourceSink, 'add'>) {
    this.options = options;
    this.rules = annotatedCopies(options.namespace);
    this.sink = sink;
    const { clock, lookUp, pacer = new MemberPacer(clock) } = options;
    this.pacer = pacer.join((key) => sink.add(key));
    this.hostNames = new HostNames({
      clock,
      lookUp,
      changed: (keys) => {
        for (const key of keys) sink.add(key);
      },
    });
  }

  /** What exceeds the limits of a cluster. It leads to no name and asks for none. */
  readonly leftOutOf = ({ clusterID }: Pick<SyncedMember, 'clusterID'>): LeftOut =>
    this.usages.get(clusterID)?.leftOut ?? nothingLeftOut;

  /** Ends its timers. */
  stop(): void {
    this.pacer.stop();
  }

  /**
   * How long a write must wait; undefined: it may be sent now, and counts as sent. `pace` throws where the clusters
   * that cause the write must wait.
   */
  pauseOf(what: string, pace: () => void): number | undefined {
    const nowMs = this.options.clock.monotonic();
    const readyMs = (this.#wroteMs.get(what) ?? nowMs - pauseMs) + pauseMs;
    if (readyMs > nowMs) return readyMs - nowMs;
    pace();
    if (this.#wroteMs.size >= mostWrites) this.#wroteMs.clear();
    this.#wroteMs.set(what, nowMs);
    return undefined;
  }
}
