// Aggregates denials: a caller that is denied a thousand times a minute causes one audit record, not
// a thousand. Pure state; log.ts decides when to write it.
//
// Each class of actors has its own pool, so that no class can displace the denials of another. Within
// a pool, each source has a quota. One overflow record counts the denials beyond it.

import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { type AuditActor, type AuditDraft, cutDraft } from './event.ts';
import { networkOf } from './source-network.ts';

/** Callers without a good credential, users and tokens, local processes, other sites and members. */
const denialPools = ['strangers', 'callers', 'workloads', 'peers'] as const;
type DenialPool = (typeof denialPools)[number];

/** Most groups (actor and reason) of one pool. */
export const mostGroups = 1000;
/** Most groups of one source: far above what a faulty client causes, and one sixteenth of a pool. */
export const mostOfSource = 60;
/** Most different reasons that the record of a group lists. */
const mostReasons = 5;

/** Same as `anonymous` of core/access: an actor without a verified identity. */
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

  /** Counts the denials of one source beyond its quota. */
  #sourceOverflow(source: string, { actor: { user, via } }: AuditDraft): AuditDraft {
    return {
      actor:
        this.#name === 'strangers'
          ? { user, groups: [], via, address: source }
          : { user: source, groups: [], via },
      verb: '*',
      outcome: 'deny',
      reason: `more than ${mostOfSource} different denials from this source within the window`,
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
    // The draft stays in memory for a minute and may contain long texts of a stranger.
    const draft = cutDraft(denied);
    this.#pools.get(poolOf(draft.actor))?.add(draft, time);
  }

  /** One draft for each group; empties the groups. */
  take(): AuditDraft[] {
    return [...this.#pools.values()].flatMap((pool) => pool.take());
  }
}

/** Actors of an unknown kind go to the pool of strangers, which expects hostile actors. */
export function poolOf({ user, via }: AuditActor): DenialPool {
  if (user === anonymousUser) return 'strangers';
  switch (via) {
    case 'token':
    case 'socket':
    case 'controller':
      return 'callers';
    case 'certificate':
      // Users of this site have plain names; a SPIFFE ID belongs to another site.
      return user.startsWith('spiffe://') ? 'peers' : 'callers';
    case 'workload':
    case 'serviceaccount':
    case 'cluster':
      return 'workloads';
    case 'peer':
    case 'federation':
    case 'join':
      return 'peers';
    default:
      return 'strangers';
  }
}

/** The source that a quota applies to: the trust domain or cluster, since one can have any number of identities. */
function sourceOf(pool: DenialPool, { user, via, address }: AuditActor): string {
  if (pool === 'strangers') return networkOf(address ?? '');
  if (via === 'serviceaccount') return user.split(':', 2).join(':');
  if (pool !== 'peers' || !user.startsWith('spiffe://')) return user;
  try {
    return SpiffeId.parse(user).trustDomain.name;
  } catch {
    return user;
  }
}

function keyOf(
  { actor, claim, verb, kind, subresource, peer, code }: AuditDraft,
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
    peer,
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

/** The properties that two denials of a group share, and the last token. For different addresses: their network. */
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
    ...(other.tokenHash === undefined ? {} : { tokenHash: other.tokenHash }),
  };
}

function written(group: Group): AuditDraft {
  const { draft, since, count, reasons, moreReasons } = group;
  if (count === 1) return draft;
  const reason = `${[...reasons].join(' | ')}${moreReasons ? ' | and others' : ''}`;
  return { ...draft, ...(reasons.size === 0 ? {} : { reason }), count, since };
}
