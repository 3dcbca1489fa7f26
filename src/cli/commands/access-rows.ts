// The rows of `hansa access list`: one for each pair of subject and role. Pure.

import type { Subject } from '../../core/access/policy.ts';
import type { TokenSummary } from '../../core/access/token-operations.ts';

export interface AccessRow {
  readonly who: string;
  readonly role: string;
  readonly binding: string;
  readonly expires: string;
  readonly lastUsed: string;
}

const none = '-';

export function accessRows(
  grants: readonly {
    readonly subject: Subject;
    readonly role: string;
    readonly binding: string;
  }[],
  tokens: readonly TokenSummary[],
  nowMs: number,
): AccessRow[] {
  const byUser = new Map(tokens.map((token) => [token.user, token]));
  const seen = new Set<string>();
  const rows = grants.map(({ subject, role, binding }): AccessRow => {
    const user =
      subject.kind === 'Token'
        ? `token:${subject.name}`
        : subject.kind === 'User'
          ? subject.name
          : undefined;
    const isToken = user?.startsWith('token:') === true;
    const token = user === undefined ? undefined : byUser.get(user);
    if (token !== undefined) seen.add(token.user);
    return {
      who: `${subject.kind} ${subject.name}`,
      role,
      binding,
      ...(isToken && token === undefined
        ? { expires: 'no such token', lastUsed: none }
        : tokenTimes(token, nowMs)),
    };
  });
  for (const token of tokens)
    if (!seen.has(token.user))
      rows.push({
        who: `Token ${token.name}`,
        role: none,
        binding: none,
        ...tokenTimes(token, nowMs),
      });
  return rows.toSorted((a, b) => compare(a.who, b.who) || compare(a.role, b.role));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function tokenTimes(
  token: TokenSummary | undefined,
  nowMs: number,
): Pick<AccessRow, 'expires' | 'lastUsed'> {
  if (token === undefined) return { expires: none, lastUsed: none };
  const untilMs = Date.parse(token.expiresAt) - nowMs;
  return {
    expires: token.state === 'expired' ? `${span(-untilMs)} ago` : `in ${span(untilMs)}`,
    lastUsed:
      token.lastUsedAt === undefined
        ? 'never'
        : `${span(nowMs - Date.parse(token.lastUsedAt))} ago`,
  };
}

/** In the largest unit that still gives at least two of it: 90s, 12m, 30h, 4d. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
