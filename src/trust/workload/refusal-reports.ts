// Reports rejected workloads to the operator: in the log, and on a site in the audit log. The workload
// itself gets few details.

import { excerpt } from '../../api/values/trust-domain.ts';
import type { AuditActor, AuditDraft } from '../../core/audit/event.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { Log } from '../../core/log/log.ts';
import type { AccessDecision, AccessQuestion } from '../authorization/ext-authz.ts';
import { toldSelectors } from './entries/workload-process.ts';
import { OccasionalLog } from './socket/occasional-log.ts';
import type { GuardRefusal, RefusedCaller } from './socket/stream-guard.ts';
import type { WorkloadConnection } from './socket/workload-connections.ts';

const guardReasons = {
  header: { code: 'HANSA_BAD_REQUEST', reason: 'a call without the security header' },
  limit: { code: 'HANSA_TOO_MANY_REQUESTS', reason: 'too many connections or streams' },
  flood: {
    code: 'HANSA_TOO_MANY_REQUESTS',
    reason: 'requests in too many frames, or too large in total',
  },
  late: { code: 'HANSA_TIMEOUT', reason: 'a stream without a complete request' },
} as const;

/** `deny` records a denial in the audit log; an agent has none. */
export function refusalReports(clock: Clock, log: Log, deny: (draft: AuditDraft) => void) {
  const calls = new OccasionalLog(log, clock, 'rejected a call on the workload socket');
  const fetches = new OccasionalLog(log, clock, 'rejected a workload: no entry matches it');
  const accesses = new OccasionalLog(log, clock, 'denied access to an offer');
  const rejections = new OccasionalLog(log, clock, 'an Envoy rejected its secrets');
  const unknown = new OccasionalLog(log, clock, 'an Envoy requested unknown secrets');
  return {
    call: (why: GuardRefusal, process: RefusedCaller | undefined): void => {
      calls.write({ why, process: process?.description });
      // A process that has ended needs no report.
      if (why === 'gone' || process === undefined) return;
      const { code, reason } = guardReasons[why];
      deny({ actor: actorOf(process), verb: 'svid.fetch', outcome: 'deny', code, reason });
    },
    fetch: ({ process }: WorkloadConnection, kind: string): void => {
      const selectors = toldSelectors(process);
      fetches.write({ kind, process: process.description, selectors });
      deny({
        actor: actorOf(process),
        verb: 'svid.fetch',
        kind: 'WorkloadEntry',
        outcome: 'deny',
        code: 'HANSA_FORBIDDEN',
        reason: `no entry on this machine matches ${process.description}; its selectors are ${selectors}`,
      });
    },
    rejected: ({ process }: WorkloadConnection, why: string): void =>
      rejections.write({ why, process: process.description }),
    missing: ({ process }: WorkloadConnection, names: readonly string[]): void =>
      unknown.write({
        names: names.slice(0, 5).map((name) => excerpt(name)),
        count: names.length,
        process: process.description,
      }),
    access: (
      { reason, id }: Extract<AccessDecision, { allowed: false }>,
      { offer, sourceAddress: address = '' }: AccessQuestion,
      { process }: WorkloadConnection,
    ): void => {
      const caller = id?.toString();
      accesses.write({ reason, offer, caller, address, asker: process.description });
      deny({
        // The kernel attests the caller. The identity in the request is only a claim.
        actor: actorOf(process),
        ...(caller === undefined
          ? {}
          : { claim: { user: caller, ...(address === '' ? {} : { address }) } }),
        verb: 'offer.access',
        kind: 'ServiceOffer',
        ...(offer === '' ? {} : { name: offer }),
        outcome: 'deny',
        code: 'HANSA_FORBIDDEN',
        reason,
      });
    },
  };
}

function actorOf({ uid, gid }: RefusedCaller): AuditActor {
  return { user: `unix:uid:${uid}`, groups: [`unix:gid:${gid}`], via: 'workload' };
}
