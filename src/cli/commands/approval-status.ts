// The part of `hansa status` about Approvals.

import { type Approval, approvalKind } from '../../api/kinds/approval.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { StatusPart } from '../../core/plane/command-line.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';

/** Without rows where nothing waits, and empty where the caller may not read Approvals. */
export async function approvalStatus(client: Pick<SiteClient, 'list'>): Promise<StatusPart> {
  let waiting: readonly Approval[];
  try {
    const { items } = await client.list(approvalKind);
    waiting = (items as readonly Approval[]).filter(({ status }) => status?.state === 'pending');
  } catch (error) {
    // A site of an earlier version has no such kind.
    if (hasCode(error, 'HANSA_FORBIDDEN') || hasCode(error, 'HANSA_NOT_FOUND')) {
      return { fields: {} };
    }
    throw error;
  }
  const reviews = waiting.filter(({ spec }) => spec.review === true).length;
  const pending = waiting.length - reviews;
  const words = [
    ...(pending === 0 ? [] : [`${pending} pending`]),
    ...(reviews === 0 ? [] : [`${reviews} to review`]),
  ];
  return {
    fields: { approvals: { pending, reviews } },
    ...(words.length === 0
      ? {}
      : { rows: [['approvals', `${words.join(', ')} (hansa approval list)`] as const] }),
  };
}
