// Converts a write of a resource into a record of the audit log.

import type { Kind } from '../../api/kind.ts';
import { type Approval, approvalKind } from '../../api/kinds/approval.ts';
import { actorOf } from '../../core/access/audit-draft.ts';
import { peerOfApproval } from '../../core/approvals/approval-object.ts';
import { changedFields } from '../../core/audit/changed-fields.ts';
import { peerNamedIn } from '../../core/audit/concerned-peer.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { AuditRow } from '../../core/store/store.ts';
import type { ObjectDraft } from '../resources/object-of.ts';
import type { WriteRecord } from '../resources/writer.ts';

export function auditWrites(
  audit: Pick<Audit, 'record'>,
): (record: WriteRecord) => AuditRow | undefined {
  return ({ caller, verb, kind, subresource, before, after, context, ...write }) => {
    const transition =
      write.transition?.reason ??
      (subresource === 'status' ? transitions(before, after) : write.meaning);
    // A status write without a transition gets no record.
    if (transition === '') return undefined;
    const metadata = (after ?? before)?.metadata;
    const { address, requestId } = context;
    return audit.record({
      actor: actorOf(caller, address === undefined ? {} : { address }),
      verb: write.transition?.verb ?? verbOf(kind, verb, before),
      kind: kind.kind,
      name: metadata?.name ?? '',
      uid: metadata?.uid ?? '',
      ...(subresource === undefined ? {} : { subresource }),
      ...peerOf(kind, after ?? before),
      outcome: 'allow',
      ...(transition === undefined ? {} : { reason: transition }),
      ...(before === undefined || after === undefined
        ? {}
        : { changed: changedFields(before, after) }),
      ...(requestId === '' ? {} : { requestId }),
    });
  };
}

/** An Approval concerns what it is about. */
function peerOf(kind: Kind, object: ObjectDraft | undefined): { readonly peer?: string } {
  if (object === undefined) return {};
  if (kind !== (approvalKind as Kind)) return peerNamedIn(object.spec);
  const peer = peerOfApproval(object.spec as unknown as Approval['spec']);
  return peer === undefined ? {} : { peer };
}

/** A kind with an `auditName` has three verbs: create, update and delete. */
function verbOf(kind: Kind, verb: WriteRecord['verb'], before: ObjectDraft | undefined): string {
  if (kind.auditName === undefined) return verb;
  if (verb === 'delete') return `${kind.auditName}.delete`;
  return `${kind.auditName}.${before === undefined ? 'create' : 'update'}`;
}

interface StatusLike {
  readonly state?: unknown;
  readonly conditions?: readonly {
    readonly type?: unknown;
    readonly status?: unknown;
    readonly reason?: unknown;
  }[];
}

/** The transitions of state and conditions, such as `Ready False → True (Started)`. Empty if there is none. */
function transitions(before: ObjectDraft | undefined, after: ObjectDraft | undefined): string {
  const old = (before?.status ?? {}) as StatusLike;
  const next = (after?.status ?? {}) as StatusLike;
  const words: string[] = [];
  if (old.state !== next.state) words.push(`state ${shown(old.state)} → ${shown(next.state)}`);
  const known = new Map(
    (old.conditions ?? []).map((condition) => [condition.type, condition.status]),
  );
  for (const { type, status, reason } of next.conditions ?? []) {
    if (known.get(type) !== status)
      words.push(`${String(type)} ${shown(known.get(type))} → ${shown(status)} (${shown(reason)})`);
  }
  return words.join(', ');
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : 'unset';
}
