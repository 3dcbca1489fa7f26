// Which writes of resources need approval, and what exactly is approved: the resulting spec and metadata of one
// version of one object. Also admits the approval policy in the Site.

import { isDeepStrictEqual } from 'node:util';
import type { Kind } from '../../api/kind.ts';
import { group } from '../../api/object.ts';
import { type FieldError, invalid, invalidObject } from '../../api/schema/field-error.ts';
import type { Authorizer } from '../../core/access/authorizer.ts';
import type { ApprovalGate } from '../../core/approvals/approval-gate.ts';
import { changesApprovers } from '../../core/approvals/approver-rights.ts';
import type { Approvers } from '../../core/approvals/approvers.ts';
import {
  actionProblem,
  type ApprovalMode,
  compilePolicy,
  isAtLeast,
  rulesOf,
  strongestActionOf,
  weakeningOf,
  type WriteOperation,
} from '../../core/approvals/policy.ts';
import { badRequest } from '../resources/errors.ts';
import type { ObjectDraft } from '../resources/object-of.ts';
import type { ProposedWrite, WriterParts } from '../resources/writer.ts';

export interface WriteApprovalsParts {
  readonly gate: ApprovalGate;
  readonly approvers: Approvers;
  readonly authorizer: Pick<Authorizer, 'policy'>;
}

export function writeApprovals(parts: WriteApprovalsParts): NonNullable<WriterParts['approve']> {
  const { gate } = parts;
  return (write) => {
    const { by, kind, operation, next, live, dryRun, warn } = write;
    if (by.caller.via === 'controller' || kind.kind === 'Approval') return undefined;
    // Whoever marked it for deletion had the approval for that, and for nothing else.
    if (live?.metadata.deletionTimestamp !== undefined && onlyReleases(next, live))
      return undefined;
    const { action, mode: ruled } = strongestActionOf(
      gate.policy,
      gate.actions,
      kind.kind,
      operation,
      next,
      live,
    );
    const protection = protectionOf(parts, write);
    const mode = isAtLeast(ruled, protection.mode) ? ruled : protection.mode;
    // Most writes end here, so nothing before it looks at whole objects.
    if (gate.modeFor(by.caller, mode) === 'none') return undefined;
    const change = next === undefined ? {} : contentOf(next);
    if (operation === 'update' && live && isDeepStrictEqual(change, contentOf(live)))
      return undefined;
    if (dryRun) {
      warn?.(`this change needs approval: without a dry run, the site requests one (${action})`);
      return undefined;
    }
    const { name = '', generateName = '' } = (next ?? live)?.metadata ?? {};
    if (live === undefined && generateName !== '') {
      throw badRequest(
        'this change needs approval, which is for one name: set metadata.name instead of metadata.generateName',
      );
    }
    const { uid, generation } = live?.metadata ?? {};
    return gate.allow(
      {
        action,
        verb: operation,
        target: {
          kind: kind.kind,
          name,
          ...(uid === undefined ? {} : { uid }),
          ...(generation === undefined ? {} : { generation }),
        },
        change,
        summary: `${operation} ${kind.kind} ${name}${meaningOf(action, kind, operation)}${protection.why}`,
        mode,
      },
      by,
    );
  };
}

/** For an action that has a name of its own. */
function meaningOf(action: string, { kind }: Kind, operation: WriteOperation): string {
  return action === `${kind}.${operation}` ? '' : `, which is ${action}`;
}

/** Everything that a user writes: field ownership and what the site sets are left out. */
function contentOf({ apiVersion: _v, kind: _k, metadata, status: _s, ...rest }: ObjectDraft) {
  const { labels, annotations, finalizers, ownerReferences } = metadata;
  const kept = Object.entries({ labels, annotations, finalizers, ownerReferences }).filter(
    ([, value]) => value !== undefined && Object.keys(value as object).length > 0,
  );
  return kept.length === 0 ? rest : { ...rest, metadata: Object.fromEntries(kept) };
}

/** Whether the write changes nothing but finalizers and owners, or is the deletion itself. */
function onlyReleases(next: ObjectDraft | undefined, live: ObjectDraft): boolean {
  return next === undefined || isDeepStrictEqual(withoutHolds(next), withoutHolds(live));
}

function withoutHolds({ metadata, ...rest }: ObjectDraft) {
  const { finalizers: _f, ownerReferences: _o, ...kept } = metadata;
  return contentOf({ ...rest, metadata: kept });
}

interface Protection {
  readonly mode: ApprovalMode;
  readonly why: string;
}

const unprotected: Protection = { mode: 'none', why: '' };

/** Weakening the policy, and changing who may approve, need approval under the policy before the change. */
function protectionOf(parts: WriteApprovalsParts, { kind, next, live }: ProposedWrite): Protection {
  const { gate, approvers, authorizer } = parts;
  if (kind.kind === 'Site') {
    const weakening = weakeningOf(gate.policy, compilePolicy(approvalsOf(next), gate.actions));
    if (weakening === undefined) return unprotected;
    return {
      mode: approvers.protection(weakening.mode),
      why: `, which weakens the approval of ${weakening.actions.join(', ')}`,
    };
  }
  const rulesOfRole = (name: string) => authorizer.policy.role(name)?.rules;
  if (!changesApprovers(kind.kind, next, live, rulesOfRole)) return unprotected;
  return {
    mode: approvers.protection(gate.policy.strongest),
    why: ', which changes who may approve',
  };
}

function approvalsOf(site: ObjectDraft | undefined): unknown {
  return (site?.spec as { readonly approvals?: unknown } | undefined)?.approvals;
}

/** Throws HANSA_INVALID for a policy that names unknown actions, or that nobody could fulfil. */
export function admitApprovalPolicy(
  { gate, approvers }: Pick<WriteApprovalsParts, 'gate' | 'approvers'>,
  kinds: readonly Kind[],
  kind: Kind,
  next: ObjectDraft | undefined,
  live: ObjectDraft | undefined,
): void {
  if (kind.kind !== 'Site' || next === undefined) return;
  const approvals = approvalsOf(next);
  if (approvals === undefined || isDeepStrictEqual(approvals, approvalsOf(live))) return;
  const names = kinds.map((one) => one.kind);
  const problems = rulesOf(approvals).flatMap(({ action }, at): FieldError[] => {
    const problem = actionProblem(action, gate.actions, names);
    return problem === undefined
      ? []
      : [invalid(`spec.approvals.rules[${at}].action`, action, problem)];
  });
  const { strongest } = compilePolicy(approvals, gate.actions);
  if (strongest === 'two-person' && approvers.list().length === 0) {
    problems.push(
      invalid(
        'spec.approvals',
        'two-person',
        'no token can approve, so no action could get an approval. Create a token first: hansa access token create NAME --role approver',
      ),
    );
  }
  if (problems.length > 0) {
    throw invalidObject({ group, kind: kind.plural, name: next.metadata.name ?? '' }, problems);
  }
}
