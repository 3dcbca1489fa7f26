// Denials, gathered: a caller who is refused a thousand times a minute makes one record, not a
// thousand. Pure state; log.ts says when it is written.

import { type AuditActor, type AuditDraft, cutDraft } from './event.ts';

/** Different (who, why) that are kept apart at once; the rest is counted together. */
const mostGroups = 1000;
/** Of a group so many different reasons are told: or the first would hide what came after it. */
const mostReasons = 5;

interface Group {
  readonly draft: AuditDraft;
  readonly since: string;
  count: number;
  readonly reasons: Set<string>;
  moreReasons: boolean;
  /** Whether all were about this object. */
  sameObject: boolean;
}

const manyReasons = `more than ${mostGroups} different denials within the window`;
const manyActors: AuditActor = { user: 'system:many', groups: [], via: 'many' };

export class DenialGroups {
  readonly #groups = new Map<string, Group>();

  get size(): number {
    return this.#groups.size;
  }

  add(denied: AuditDraft, time: string): void {
    // It waits for a minute, and may hold what a stranger wrote.
    const draft = cutDraft(denied);
    const { actor, verb, kind, subresource, code } = draft;
    const key = JSON.stringify([
      actor.user,
      actor.via,
      actor.address,
      verb,
      kind,
      subresource,
      code,
    ]);
    const known = this.#groups.get(key);
    if (known !== undefined) {
      known.count++;
      addReason(known, draft);
      known.sameObject &&= known.draft.name === draft.name;
      return;
    }
    if (this.#groups.size < mostGroups) {
      const { reason } = draft;
      this.#groups.set(key, {
        draft,
        since: time,
        count: 1,
        reasons: new Set(reason === undefined ? [] : [reason]),
        moreReasons: false,
        sameObject: true,
      });
      return;
    }
    const rest = this.#groups.get('');
    if (rest !== undefined) {
      rest.count++;
      return;
    }
    this.#groups.set('', {
      draft: {
        actor: manyActors,
        verb: '*',
        outcome: 'deny',
        reason: manyReasons,
      },
      since: time,
      count: 1,
      reasons: new Set([manyReasons]),
      moreReasons: false,
      sameObject: true,
    });
  }

  /** One draft a group, and begins anew. */
  take(): AuditDraft[] {
    const drafts = [...this.#groups.values()].map((group) => {
      const { draft, since, count, sameObject } = group;
      if (count === 1) return draft;
      const { name: _, uid: __, requestId: ___, ...common } = draft;
      return {
        ...common,
        ...(group.reasons.size === 0 ? {} : { reason: reasonsOf(group) }),
        ...(sameObject && draft.name !== undefined ? { name: draft.name } : {}),
        count,
        since,
      };
    });
    this.#groups.clear();
    return drafts;
  }
}

function addReason(group: Group, { reason }: AuditDraft): void {
  if (reason === undefined || group.reasons.has(reason)) return;
  if (group.reasons.size < mostReasons) group.reasons.add(reason);
  else group.moreReasons = true;
}

function reasonsOf({ reasons, moreReasons }: Group): string {
  return `${[...reasons].join(' | ')}${moreReasons ? ' | and others' : ''}`;
}
