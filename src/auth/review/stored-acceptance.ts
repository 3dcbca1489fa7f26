// An acceptance as text: the status of its answer in JSON. The cache keeps acceptances in this form, because
// it takes a third of the memory of objects and one object for the garbage collector, and answers contain
// it as it is.

import type { Acceptance, ReviewedUser } from './verdict.ts';

/** Do not spread it: the user and the audiences are getters. */
export class StoredAcceptance implements Acceptance {
  readonly authenticated = true as const;
  readonly expiresAtMs: number;
  /** The `status` of a TokenReview. */
  readonly json: string;

  private constructor(acceptance: Acceptance) {
    this.expiresAtMs = acceptance.expiresAtMs;
    this.json = acceptanceJson(acceptance);
  }

  static of(acceptance: Acceptance): StoredAcceptance {
    return acceptance instanceof StoredAcceptance ? acceptance : new StoredAcceptance(acceptance);
  }

  get user(): ReviewedUser {
    const { username, uid = '', groups, extra = {} } = this.#status.user;
    return { username, uid, groups, extra };
  }

  get audiences(): readonly string[] {
    return this.#status.audiences;
  }

  get #status(): Status {
    return JSON.parse(this.json) as Status;
  }
}

interface Status {
  readonly authenticated: true;
  readonly user: Pick<ReviewedUser, 'username' | 'groups'> & Partial<ReviewedUser>;
  readonly audiences: readonly string[];
}

/** Fields without a value are left out, as Go does. */
export function acceptanceJson(acceptance: Acceptance): string {
  if (acceptance instanceof StoredAcceptance) return acceptance.json;
  const { user, audiences } = acceptance;
  const { username, uid, groups, extra } = user;
  const status = {
    authenticated: true,
    user: {
      username,
      uid: uid === '' ? undefined : uid,
      groups,
      extra: Object.keys(extra).length === 0 ? undefined : extra,
    },
    audiences,
  };
  return JSON.stringify(status);
}
