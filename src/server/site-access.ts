// Who may do what at a site, and the only way to change its resources: kinds, roles, tokens, approvals and the
// writer with all of its checks. The simulation uses the same parts.

import type { Kind } from '../api/kind.ts';
import { type Approval, approvalKind } from '../api/kinds/approval.ts';
import { coreKinds } from '../api/kinds/core-kinds.ts';
import type { Resource } from '../api/object.ts';
import { createRegistry, type Registry } from '../api/registry.ts';
import { Authenticator } from '../core/access/authenticator.ts';
import { Authorizer } from '../core/access/authorizer.ts';
import { checkEscalation } from '../core/access/escalation.ts';
import { checkGuardedFields } from '../core/access/guarded-fields.ts';
import { checkOrigin } from '../core/access/origin.ts';
import { writePresetObjects } from '../core/access/preset-objects.ts';
import type { KindName } from '../core/access/presets.ts';
import { TokenRegister } from '../core/access/token-register.ts';
import { ApprovalGate } from '../core/approvals/approval-gate.ts';
import { Approvers } from '../core/approvals/approvers.ts';
import { decideApproval } from '../core/approvals/decide-approval.ts';
import type { Clock, Random } from '../core/clock/clock.ts';
import type { Plane } from '../core/plane/plane.ts';
import type { Store } from '../core/store/store.ts';
import { admitApprovalPolicy, writeApprovals } from './approvals/write-approvals.ts';
import { auditWrites } from './audit/audit-writes.ts';
import { RecordBudget } from './audit/record-budget.ts';
import type { PlaneHost } from './plane-host.ts';
import { ResourceWriter } from './resources/writer.ts';
import { auditKind } from './routes/audit-routes.ts';
import type { Foundation } from './site-foundation.ts';
import { admitSite } from './site-object.ts';

/** Authentication and authorization of a site. */
export interface SiteAccess {
  readonly registry: Registry;
  readonly kindNames: readonly KindName[];
  readonly authorizer: Authorizer;
  readonly tokens: TokenRegister;
  readonly authenticator: Authenticator;
  readonly budget: RecordBudget;
  /** The audit log, which counts the records of each caller. */
  readonly counted: ReturnType<RecordBudget['counting']>;
  readonly gate: ApprovalGate;
  readonly approvers: Approvers;
}

export interface AccessOptions {
  readonly planes: readonly Plane[];
  /** Additional kinds. */
  readonly kinds: readonly Kind[];
  readonly clock: Clock;
  readonly random: Random;
  readonly recordsPerSecond: number;
  /** How long a request for approval waits. Only the simulation shortens it. */
  readonly approvalTtlMs?: number;
}

/** Prepares the kinds, the preset roles, authentication and authorization. */
export async function prepareAccess(
  options: AccessOptions,
  { store, trustDomain, audit }: Pick<Foundation, 'store' | 'trustDomain' | 'audit'>,
): Promise<SiteAccess> {
  const { planes, kinds: otherKinds, clock, random, recordsPerSecond, approvalTtlMs } = options;
  const ownedKinds = [...coreKinds, ...planes.flatMap((plane) => plane.kinds)];
  const registry = createRegistry([...new Set([...ownedKinds, ...otherKinds])]);
  const kindNames = [...registry.kinds, auditKind];
  const presets = planes.flatMap((plane) => plane.presets ?? []);
  await writePresetObjects({ store, clock, random, audit, kinds: kindNames, presets });
  const authorizer = new Authorizer({ store, kinds: kindNames, presets });
  const tokens = new TokenRegister(store, clock);
  const authenticator = new Authenticator({ trustDomain, tokens, clock });
  const budget = new RecordBudget(recordsPerSecond, clock);
  const counted = budget.counting(audit);
  const gate = new ApprovalGate({
    store,
    clock,
    random,
    audit: counted,
    authorizer,
    actions: planes.flatMap((plane) => plane.approvalActions ?? []),
    ...(approvalTtlMs === undefined ? {} : { ttlMs: approvalTtlMs }),
  });
  const approvers = new Approvers({ clock, authorizer, tokens, gate });
  return {
    registry,
    kindNames,
    authorizer,
    tokens,
    authenticator,
    budget,
    counted,
    gate,
    approvers,
  };
}

/** Creates the writer, the only way to change resources. */
export function createWriter(
  {
    clock,
    random,
    store,
  }: { readonly clock: Clock; readonly random: Random; readonly store: Store },
  { registry, authorizer, counted, gate, approvers }: SiteAccess,
  planes: PlaneHost,
): ResourceWriter {
  const approvals = { gate, approvers, authorizer };
  return new ResourceWriter({
    store,
    clock,
    random,
    auditRow: auditWrites(counted),
    accompany: (...write) => planes.accompany(...write),
    approve: writeApprovals(approvals),
    decide: (caller, kind, next, live) =>
      kind === (approvalKind as Kind)
        ? decideApproval(
            authorizer,
            caller,
            next as unknown as Approval | undefined,
            live as unknown as Approval | undefined,
            clock.now(),
          )
        : undefined,
    admit: (caller, kind, next, live, warn) => {
      checkGuardedFields(authorizer, caller, kind, next, live, planes.guards(kind, next));
      checkOrigin((asked) => authorizer.isUnlimited(asked), caller, kind.plural, next, live);
      admitSite(kind, next as Resource | undefined, live as Resource | undefined);
      admitApprovalPolicy(approvals, registry.kinds, kind, next, live);
      const expected = planes.admit(kind, next, live, warn);
      return [...expected, ...checkEscalation(authorizer, caller, kind.kind, next, live)];
    },
  });
}
