// Denials, gathered: a caller that is refused a thousand times a minute makes one record, not a
// thousand. Pure state; log.ts says when it is written.
//
// Each class of actors has a pool of its own, so that none pushes out the denials of another. Within
// a pool each source has a share. What is beyond is counted in a record that says so.

import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { type AuditActor, type AuditDraft, cutDraft } from './event.ts';
import { networkOf } from './source-network.ts';

/** Callers without a good credential, users and tokens, local processes, other sites and members. */
const denialPools = ['strangers', 'callers', 'workloads', 'peers'] as const;
type DenialPool = (typeof denialPools)[number];

/** Different (who, why) of a pool that are kept apart at once. */
export const mostGroups = 1000;
/** Of one source: far above what one mistake of a client makes, and sixteen of them fit in a pool. */
export const mostOfSource = 60;
/** Of a group so many different reasons are told: or the first would hide what came after it. */
const mostReasons = 5;

/** As `anonymous` of core/access: nothing of this actor is proven. */
const anonymousUser = 'system:anonymous';

interface Group {
  draft: AuditDraft;
  readonly since: string;
  count: number;
  readonly reasons: Set<string>;
  moreReasons: boolean;
}

class Pool {
  readonly #name: DenialPool;
  readonly #groups = new Map<string, Group>();
  /** How many groups each source has, that of its overflow included. */
  readonly #held = new Map<string, number>();
  #overflow: Group | undefined;

  constructor(name: DenialPool) {
    this.#name = name;
  }

  get size(): number {
    return this.#groups.size + (this.#overflow === undefined ? 0 : 1);
  }

  add(draft: AuditDraft, time: string): void {
    const source = sourceOf(this.#name, draft.actor);
    if (joins(this.#groups.get(keyOf(draft, source)), draft)) return;
    const held = this.#held.get(source) ?? 0;
    const kept = held < mostOfSource ? draft : this.#sourceOverflow(source, draft);
    const key = keyOf(kept, source);
    if (joins(this.#groups.get(key), kept)) return;
    if (this.#groups.size < mostGroups) {
      this.#groups.set(key, newGroup(kept, time));
      this.#held.set(source, held + 1);
    } else if (!joins(this.#overflow, this.#poolOverflow())) {
      this.#overflow = newGroup(this.#poolOverflow(), time);
    }
  }

  /** One draft for each group; empties the groups. */
  take(): AuditDraft[] {
    const all = [
      ...this.#groups.values(),
      ...(this.#overflow === undefined ? [] : [this.#overflow]),
    ];
    this.#groups.clear();
    this.#held.clear();
    this.#overflow = undefined;
    return all.map(written);
  }

  /** The denials of one source that are beyond its share. */
  #sourceOverflow(source: string, { actor: { user, via } }: AuditDraft): AuditDraft {
    return {
      actor:
        this.#name === 'strangers'
          ? { user, groups: [], via, address: source }
          : { user: source, groups: [], via },
      verb: '*',
      outcome: 'deny',
      reason: `more than ${mostOfSource} different denials of this source within the window`,
    };
  }

  #poolOverflow(): AuditDraft {
    return {
      actor: { user: 'system:many', groups: [], via: this.#name },
      verb: '*',
      outcome: 'deny',
      reason: `more than ${mostGroups} different denials of ${this.#name} within the window`,
    };
  }
}

export class DenialGroups {
  readonly #pools = new Map(denialPools.map((name) => [name, new Pool(name)]));

  get size(): number {
    let size = 0;
    for (const pool of this.#pools.values()) size += pool.size;
    return size;
  }

  add(denied: AuditDraft, time: string): void {
    // It waits for a minute, and may hold what a stranger wrote.
    const draft = cutDraft(denied);
    this.#pools.get(poolOf(draft.actor))?.add(draft, time);
  }

  /** One draft for each group; empties the groups. */
  take(): AuditDraft[] {
    return [...this.#pools.values()].flatMap((pool) => pool.take());
  }
}

/** An actor of an unknown kind is a stranger: that pool is made for hostile ones. */
export function poolOf({ user, via }: AuditActor): DenialPool {
  if (user === anonymousUser) return 'strangers';
  switch (via) {
    case 'token':
    case 'socket':
    case 'controller':
      return 'callers';
    case 'certificate':
      // Users have plain names here; a SPIFFE ID is that of another site.
      return user.startsWith('spiffe://') ? 'peers' : 'callers';
    case 'workload':
      return 'workloads';
    case 'peer':
    case 'federation':
    case 'join':
      return 'peers';
    default:
      return 'strangers';
  }
}

/** Who has a share of the pool. A trust domain can have any number of identities. */
function sourceOf(pool: DenialPool, { user, address }: AuditActor): string {
  if (pool === 'strangers') return networkOf(address ?? '');
  if (pool !== 'peers' || !user.startsWith('spiffe://')) return user;
  try {
    return SpiffeId.parse(user).trustDomain.name;
  } catch {
    return user;
  }
}

function keyOf(
  { actor, claim, verb, kind, subresource, code }: AuditDraft,
  source: string,
): string {
  const network = actor.address === undefined ? undefined : networkOf(actor.address);
  return JSON.stringify([
    source,
    actor.user,
    actor.via,
    network,
    claim?.user,
    verb,
    kind,
    subresource,
    code,
  ]);
}

function newGroup(draft: AuditDraft, since: string): Group {
  const { reason } = draft;
  return {
    draft,
    since,
    count: 1,
    reasons: new Set(reason === undefined ? [] : [reason]),
    moreReasons: false,
  };
}

/** Counts the denial in the group; false where there is no group yet. */
function joins(group: Group | undefined, draft: AuditDraft): group is Group {
  if (group === undefined) return false;
  group.count++;
  group.draft = common(group.draft, draft);
  const { reason } = draft;
  if (reason === undefined || group.reasons.has(reason)) return true;
  if (group.reasons.size < mostReasons) group.reasons.add(reason);
  else group.moreReasons = true;
  return true;
}

/** What two denials of a group have in common. Of different addresses that is their network. */
function common(one: AuditDraft, other: AuditDraft): AuditDraft {
  const { name, uid: _uid, requestId: _requestId, actor, claim, ...rest } = one;
  const { address, credential, ...who } = actor;
  const isSame = address === other.actor.address;
  const network = address === undefined || address.includes('/') ? address : networkOf(address);
  return {
    ...rest,
    actor: {
      ...who,
      ...(credential === undefined || credential !== other.actor.credential ? {} : { credential }),
      ...(address === undefined || network === undefined
        ? {}
        : { address: isSame ? address : network }),
    },
    ...(claim === undefined
      ? {}
      : { claim: claim.address === other.claim?.address ? claim : { user: claim.user } }),
    ...(name !== undefined && name === other.name ? { name } : {}),
  };
}

function written(group: Group): AuditDraft {
  const { draft, since, count, reasons, moreReasons } = group;
  if (count === 1) return draft;
  const reason = `${[...reasons].join(' | ')}${moreReasons ? ' | and others' : ''}`;
  return { ...draft, ...(reasons.size === 0 ? {} : { reason }), count, since };
}
