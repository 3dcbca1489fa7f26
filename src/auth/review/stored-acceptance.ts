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

  private constructor(json: string, expiresAtMs: number) {
    this.expiresAtMs = expiresAtMs;
    this.json = json;
  }

  static of(acceptance: Acceptance): StoredAcceptance {
    if (acceptance instanceof StoredAcceptance) return acceptance;
    return new StoredAcceptance(acceptanceJson(acceptance), acceptance.expiresAtMs);
  }

  /** The same one for the same audiences. */
  withAudiences(audiences: readonly string[]): StoredAcceptance {
    const start = this.#audiencesAt;
    const text = JSON.stringify(audiences);
    if (this.json.slice(start, -1) === text) return this;
    return new StoredAcceptance(`${this.json.slice(0, start)}${text}}`, this.expiresAtMs);
  }

  get user(): ReviewedUser {
    const { username, uid = '', groups, extra = {} } = this.#status.user;
    return { username, uid, groups, extra };
  }

  get audiences(): readonly string[] {
    return JSON.parse(this.json.slice(this.#audiencesAt, -1)) as readonly string[];
  }

  /** They come last. Inside a text of JSON, the quotes of this would be escaped. */
  get #audiencesAt(): number {
    return this.json.lastIndexOf(audiencesField) + audiencesField.length;
  }

  get #status(): Status {
    return JSON.parse(this.json) as Status;
  }
}

const audiencesField = '"audiences":';

interface Status {
  readonly authenticated: true;
  readonly user: Pick<ReviewedUser, 'username' | 'groups'> & Partial<ReviewedUser>;
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
