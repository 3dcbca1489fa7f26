// What the part for ExternalEntities knows in one term of the leader: what it wrote itself, and when. It is forgotten
// when the term ends.

import type { Clock } from '../../core/clock/clock.ts';
import type { Reflector } from '../../core/kube/reflector/reflector.ts';
import type { SourceSink } from '../../core/reconcile/source.ts';
import { HostNames } from '../copies/host-names.ts';
import { MemberPacer, type PartPacer } from '../copies/member-pacer.ts';
import { type LeftOut, nothingLeftOut, type OriginUsage } from '../copies/origin-usage.ts';
import { RecentWrites } from '../copies/recent-writes.ts';
import type { Cached, SyncedMember, SyncedMembers } from '../copies/synced-member.ts';
import { keyOfCopy } from '../services/federated-name.ts';
import { copyOfEntity, type ExternalEntity } from './compile-external-entities.ts';

/** The member that gets the ExternalEntities. */
export interface EntityMember extends SyncedMember {
  /** By NAMESPACE/NAME of their copy. A cluster may not serve them. */
  readonly externalEntities: Cached<ExternalEntity, 'copy'> &
    Pick<Reflector<ExternalEntity>, 'status'>;
}

export interface EntityOptions {
  readonly member: EntityMember;
  readonly members: SyncedMembers;
  readonly clock: Clock;
  /** The system namespace, for global copies. */
  readonly namespace: string;
  /** The addresses of the name of a load balancer. Must end in bounded time. */
  readonly lookUp: (name: string) => Promise<readonly string[]>;
  /** Of all parts of this member. Default: one for this part. */
  readonly pacer?: Pick<MemberPacer, 'join'> | undefined;
}

/** Between two writes for one copy, so that a flapping endpoint does not become a flood of writes. */
const pauseMs = 1000;
/** So many are remembered. */
const mostWrites = 10_000;

export class EntityTerm {
  readonly options: EntityOptions;
  readonly sink: Pick<SourceSink, 'add'>;
  readonly entities: RecentWrites<ExternalEntity>;
  readonly hostNames: HostNames;
  readonly pacer: PartPacer;
  /** What each cluster gives others, by cluster ID. */
  readonly usages = new Map<string, OriginUsage>();
  /** What exceeded the limits of a cluster at the last look, by cluster ID. */
  readonly leftOut = new Map<string, LeftOut>();
  /** The clusters whose nodes a copy leads to, by the key of the federated Service. */
  readonly nodeClusters = new Map<string, ReadonlySet<string>>();
  /** In monotonic time, by NAMESPACE/NAME of the copy. */
  readonly #wroteMs = new Map<string, number>();

  constructor(options: EntityOptions, sink: Pick<SourceSink, 'add'>) {
    this.options = options;
    this.sink = sink;
    const { clock, lookUp, member, pacer = new MemberPacer(clock) } = options;
    this.pacer = pacer.join((key) => sink.add(key));
    this.entities = new RecentWrites(
      clock,
      (key) => member.externalEntities.byKey(key),
      (_, written) => this.addOwnerOf(written),
    );
    this.hostNames = new HostNames({
      clock,
      lookUp,
      changed: (keys) => {
        for (const key of keys) sink.add(key);
      },
    });
  }

  /** Ends its timers. */
  stop(): void {
    this.entities.stop();
    this.pacer.stop();
  }

  /** Adds the federated Service whose ExternalEntities have such names. */
  addOwnerOf({ metadata }: Pick<ExternalEntity, 'metadata'>): void {
    const name = copyOfEntity(metadata.name);
    if (name === undefined) return;
    this.sink.add(keyOfCopy(metadata.namespace ?? '', name, this.options.namespace));
  }

  /** What exceeds the limits of a cluster. Other clusters do not get it. */
  readonly leftOutOf = ({ clusterID }: Pick<SyncedMember, 'clusterID'>): LeftOut =>
    this.usages.get(clusterID)?.leftOut ?? nothingLeftOut;

  /** How long writes for a copy must wait; undefined: they may be sent now. */
  pauseOf(copy: string): number | undefined {
    const nowMs = this.options.clock.monotonic();
    const readyMs = (this.#wroteMs.get(copy) ?? nowMs - pauseMs) + pauseMs;
    return readyMs > nowMs ? readyMs - nowMs : undefined;
  }

  /** The writes for a copy are sent now. */
  writes(copy: string): void {
    if (this.#wroteMs.size >= mostWrites) this.#wroteMs.clear();
    this.#wroteMs.set(copy, this.options.clock.monotonic());
  }
}

/** Whether it has Antrea, and the site has the rights. What was cached before counts for nothing. */
export function servesEntities({
  externalEntities,
}: Pick<EntityMember, 'externalEntities'>): boolean {
  const { isSynced, failure } = externalEntities.status();
  return isSynced && failure?.reason !== 'not-found' && failure?.reason !== 'forbidden';
}
