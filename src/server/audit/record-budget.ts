// Limits how many audit records one caller may cause. The site keeps records for ever, so a caller
// that can cause one must not be able to cause a thousand per second.
//
// The budget counts records, not requests: a request that changes nothing costs nothing.
// A caller beyond its budget is refused before its next request is worked on.

import { adminsGroup, type Caller } from '../../core/access/identity.ts';
import type { AuditActor, AuditDraft } from '../../core/audit/event.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

/** A full bucket holds this many seconds of records: 30,000 by default, more than a GitOps controller writes at its first sync. */
const burstSeconds = 300;

/** Every credential obtains user SVIDs, also one without rights: 300 at once by default, then one per second. */
const costOfUserSvid = 100;

/** As many as there can be tokens. */
const maxCallers = 10_000;

type Records = Pick<Audit, 'record' | 'deny' | 'later'>;

export class RecordBudget {
  readonly #perSecond: number;
  readonly #buckets: TokenBuckets;

  /** `recordsPerSecond` 0 is no limit. */
  constructor(recordsPerSecond: number, clock: Clock) {
    this.#perSecond = recordsPerSecond;
    this.#buckets = new TokenBuckets({
      clock,
      burst: recordsPerSecond * burstSeconds,
      perSecond: recordsPerSecond,
      maxKeys: maxCallers,
    });
  }

  /** Throws HANSA_TOO_MANY_REQUESTS where the caller has caused too many records. */
  check(caller: Caller): void {
    if (!this.#isLimited(caller)) return;
    const retryAfterSeconds = this.#buckets.waitSeconds(caller.user);
    if (retryAfterSeconds === undefined) return;
    throw new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `Cannot serve ${caller.user}: its requests wrote too many audit records. Try again in ${retryAfterSeconds} seconds. The operator of the site sets the limit: limits.recordsPerSecond is ${this.#perSecond}.`,
      { details: { retryAfterSeconds } },
    );
  }

  /** The same log, whose records count. Denials do not: they are gathered and bounded by themselves. */
  counting(audit: Records): Records {
    return {
      record: (draft) => {
        this.#charge(draft);
        return audit.record(draft);
      },
      later: (draft) => {
        this.#charge(draft);
        audit.later(draft);
      },
      deny: (draft) => audit.deny(draft),
    };
  }

  #charge({ actor, kind }: AuditDraft): void {
    if (this.#isLimited(actor))
      this.#buckets.charge(actor.user, kind === 'UserSVID' ? costOfUserSvid : 1);
  }

  /** The owner of the site always has room, and controllers are the site itself. Others than callers of the API have limits of their own. */
  #isLimited({ via, groups }: Pick<AuditActor, 'via' | 'groups'>): boolean {
    if (this.#perSecond === 0 || (via !== 'token' && via !== 'certificate')) return false;
    return !groups.includes(adminsGroup);
  }
}
