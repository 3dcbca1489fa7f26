// One OriginUsage for each member of a site, which all targets share: a change is counted once, however many
// members the site leads.

import type { CopyRules } from './copy-rules.ts';
import { OriginUsage } from './origin-usage.ts';
import type { SyncedMember } from './synced-member.ts';

interface Shared {
  readonly usage: OriginUsage;
  readonly stop: () => void;
  users: number;
}

/** By member and name of the rules: what is annotated and what is exported counts for itself. */
const known = {
  copies: new WeakMap<SyncedMember, Shared>(),
  imports: new WeakMap<SyncedMember, Shared>(),
} as const;

/** Listen to the member after this call, so that `usage` hears of each change first. */
export function followUsage(
  member: SyncedMember,
  rules: CopyRules,
): { readonly usage: OriginUsage; readonly release: () => void } {
  let shared = known[rules.name].get(member);
  if (shared === undefined) {
    const usage = new OriginUsage(member, rules);
    shared = { usage, stop: usage.follow(), users: 0 };
    known[rules.name].set(member, shared);
  }
  const own = shared;
  own.users++;
  return {
    usage: own.usage,
    release: () => {
      own.users--;
      if (own.users > 0) return;
      own.stop();
      known[rules.name].delete(member);
    },
  };
}
