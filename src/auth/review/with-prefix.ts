// The user of another cluster, with a prefix before every name that could mean something in the cluster of the caller.

import type { Acceptance, ReviewedUser } from './verdict.ts';

export function withPrefix(
  { user, audiences, expiresAtMs }: Acceptance,
  prefix: string,
): Acceptance {
  const { username, uid, groups, extra } = user;
  return {
    authenticated: true,
    user: {
      username: `${prefix}${username}`,
      // A cluster chooses its UIDs, so they must not equal those of another either.
      uid: uid === '' ? '' : `${prefix}${uid}`,
      groups: groups.map((group) => `${prefix}${group}`),
      extra: keysWithPrefix(extra, prefix),
    },
    audiences,
    expiresAtMs,
  };
}

/**
 * The keys, because policies of the asking cluster read them: a Node or Pod of another cluster is none of its own,
 * whatever its name.
 */
function keysWithPrefix(extra: ReviewedUser['extra'], prefix: string): ReviewedUser['extra'] {
  return Object.fromEntries(
    Object.entries(extra).map(([key, values]) => [`${prefix}${key}`, values]),
  );
}
