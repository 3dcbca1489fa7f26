// Conflicts: two processes that use one agent's identity at the same time. The site signs nothing for a
// conflicted agent until an operator decides. Pure.

import { timestamp } from '../../api/object.ts';
import type { Member } from './members.ts';

/** Why the site signs nothing for this member now; undefined if it does. */
export function signingProblem({
  name,
  conflictedAtMs,
  conflict = 'two processes use its identity',
}: Pick<Member, 'name' | 'conflictedAtMs' | 'conflict'>): string | undefined {
  if (conflictedAtMs === undefined) return undefined;
  return `the agent ${name} is conflicted since ${timestamp(conflictedAtMs)}: ${conflict}. Stop the process that does not belong there and run hansa agent reinstate ${name}, or run hansa agent forget ${name}`;
}
