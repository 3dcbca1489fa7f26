// Limits how many audit records one caller may cause. The site keeps records forever, so a caller that
// can cause one must not be able to cause a thousand per second.
//
// The budget counts records, not requests: a request that changes nothing costs nothing. The site
// rejects the next request of a caller that exceeded its budget.

import { adminsGroup, type Caller } from '../../core/access/identity.ts';
import type { AuditActor, AuditDraft } from '../../core/audit/event.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

/** The burst, in seconds of records: 30,000 records by default, more than the first sync of a GitOps controller. */
const burstSeconds = 300;

/** Every credential can get user SVIDs, even without rights: by default a burst of 300, then one per second. */
const costOfUserSvid = 100;

/** The maximum number of tokens. */
const maxCallers = 10_000;

/** Clusters count, because their users can change objects as often as they like. */
const limited: ReadonlySet<string> = new Set(['token', 'certificate', 'cluster']);

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

  /** Throws HANSA_TOO_MANY_REQUESTS if the caller has caused too many records. */
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

  /** A log that counts records against the budget. Denials do not count, because the log aggregates them. */
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

  /** API callers are limited, except the owner. Controllers are part of the site, and peers have other limits. */
  #isLimited({ via, groups }: Pick<AuditActor, 'via' | 'groups'>): boolean {
    return this.#perSecond > 0 && limited.has(via) && !groups.includes(adminsGroup);
  }
}
