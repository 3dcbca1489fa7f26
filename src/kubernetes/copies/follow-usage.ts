// One OriginUsage for each member of a site, which all targets share: a change is counted once, however many
// members the site leads.

import { OriginUsage } from './origin-usage.ts';
import type { SyncedMember } from './synced-member.ts';

interface Shared {
  readonly usage: OriginUsage;
  readonly stop: () => void;
  users: number;
}

const known = new WeakMap<SyncedMember, Shared>();

/** Listen to the member after this call, so that `usage` hears of each change first. */
export function followUsage(
  member: SyncedMember,
  namespace: string,
): { readonly usage: OriginUsage; readonly release: () => void } {
  let shared = known.get(member);
  if (shared === undefined) {
    const usage = new OriginUsage(member, namespace);
    shared = { usage, stop: usage.follow(), users: 0 };
    known.set(member, shared);
  }
  const own = shared;
  own.users++;
  return {
    usage: own.usage,
    release: () => {
      own.users--;
      if (own.users > 0) return;
      own.stop();
      known.delete(member);
    },
  };
}
