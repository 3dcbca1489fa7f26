// Decides which bot instances with an expired SVID the site forgets. It keeps the others, because their
// keys can still renew. Pure.

import type { Entry } from '../../core/store/store.ts';

export interface ExpiredLimits {
  readonly expiredOfToken: number;
  readonly expired: number;
  /** How long after its expiry an SVID can be renewed with its registered key. */
  readonly reattestWithinMs: number;
}

/**
 * Bot instances with an expired SVID that the site keeps for re-attestation. Programs that join for every
 * run leave one each time, so the limits are low. Beyond them, the site forgets the longest expired first.
 */
export const defaultExpiredLimits: ExpiredLimits = {
  expiredOfToken: 1000,
  expired: 5000,
  reattestWithinMs: 7 * 86_400_000,
};

export interface ExpiredBot {
  readonly entry: Entry;
  readonly token: string;
  readonly renewableFromMs: number;
}

/** Those that can no longer renew, and those beyond the limits, the longest expired first. */
export function overdue(
  expired: readonly ExpiredBot[],
  nowMs: number,
  { reattestWithinMs, expiredOfToken, expired: most }: ExpiredLimits,
): readonly ExpiredBot[] {
  const keptOfToken = new Map<string, number>();
  let kept = 0;
  const over: ExpiredBot[] = [];
  for (const bot of expired.toSorted((a, b) => b.renewableFromMs - a.renewableFromMs)) {
    const ofToken = keptOfToken.get(bot.token) ?? 0;
    const isOver = bot.renewableFromMs + reattestWithinMs < nowMs;
    if (isOver || ofToken >= expiredOfToken || kept >= most) over.push(bot);
    else {
      keptOfToken.set(bot.token, ofToken + 1);
      kept++;
    }
  }
  return over.toReversed();
}
