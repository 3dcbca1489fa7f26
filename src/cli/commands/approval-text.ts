// The text of an Approval: everything that an approver needs to decide. Pure.

import type { Approval } from '../../api/kinds/approval.ts';
import type { Resource } from '../../api/object.ts';
import { humanDuration } from '../../api/values/duration.ts';
import { isIntact } from '../../core/approvals/decision-rules.ts';
import { changedFields } from '../../core/audit/changed-fields.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';

export function stateOf({ status }: Approval): string {
  return status?.state ?? 'pending';
}

/** Everything that an approver needs to decide. */
export function approvalText(
  approval: Approval,
  /** Undefined where nobody can read it. `live` is undefined where it does not exist. */
  found: { readonly live: Resource | undefined } | undefined,
  nowMs: number,
): string {
  const { spec, status } = approval;
  const { target, requester } = spec;
  const leftMs = Date.parse(spec.expiresAt) - nowMs;
  const rows = [
    ['request', spec.summary],
    ['action', `${spec.action} (${spec.verb})`],
    ['target', `${target.kind} ${target.name}`],
    ['requester', requester.user],
    ['needs', spec.mode === 'two-person' ? 'another person with a token' : 'an approver'],
    [
      'state',
      status?.reason === undefined ? stateOf(approval) : `${stateOf(approval)}: ${status.reason}`,
    ],
    ['expires', leftMs > 0 ? `in ${humanDuration(leftMs)}` : spec.expiresAt],
    ['hash', isIntact(spec) ? spec.hash : `${spec.hash} does NOT match the content below`],
    ...targetRows(approval, found),
    ...(spec.review === true ? [['review', 'it was already done, in an emergency']] : []),
  ];
  return [
    renderColumns(rows.map((row) => row.map((cell) => printable(cell)))),
    '',
    ...changeLines(spec.change),
  ].join('\n');
}

function changeLines(change: string): readonly string[] {
  let text = change;
  try {
    text = JSON.stringify(JSON.parse(change), undefined, 2);
  } catch {
    // Shows the text as it is: the hash says whether it is genuine.
  }
  return text.split('\n').map((line) => printable(line));
}

/** What changes in the target, and whether the Approval can still be used for it. */
function targetRows(
  approval: Approval,
  found: { readonly live: Resource | undefined } | undefined,
): readonly (readonly [string, string])[] {
  const { target, verb, change, review } = approval.spec;
  const isOpen = ['pending', 'approved'].includes(stateOf(approval)) && review !== true;
  if (found === undefined || target.uid === undefined || !isOpen) return [];
  const { live } = found;
  if (live === undefined || live.metadata.uid !== target.uid) {
    return [['note', 'the target no longer exists, so this request can no longer be used']];
  }
  if (live.metadata.generation !== target.generation) {
    return [['note', 'the target has changed since, so this request can no longer be used']];
  }
  if (verb !== 'update') return [];
  const { labels, annotations, finalizers, ownerReferences } = live.metadata;
  const before = {
    spec: live.spec,
    metadata: { labels, annotations, finalizers, ownerReferences },
  };
  const after = { metadata: {}, ...(parsed(change) as object) };
  return [['changes', changedFields(before, after).join(', ')]];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
