// Ends Approvals: rejects those without a decision in time, expires those that were not used in time or whose
// approver may not approve any more, ends those that something other than the site changed, and deletes old ones.
// The gate checks all of that itself, so a late controller allows nothing.

import type { Approval } from '../../api/kinds/approval.ts';
import { bindingsCollection, rolesCollection } from '../access/policy.ts';
import { tokensCollection } from '../access/token-register.ts';
import type { Clock } from '../clock/clock.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ResourceClient } from '../reconcile/resource-client.ts';
import { StoreSource } from '../reconcile/source.ts';
import { recordReader } from '../store/reader.ts';
import type { Store } from '../store/store.ts';
import { approvalsCollection } from './approval-object.ts';
import { type StandingParts, standingOf } from './approver-standing.ts';
import type { Approvers } from './approvers.ts';
import { hasExpired, isIntact } from './decision-rules.ts';

const controllerName = 'approvals';
const leaseName = 'controller.approvals';

const hourMs = 60 * 60 * 1000;
/** How long a decided or spent Approval stays visible. The audit log keeps its history. */
const keepMs = 7 * 24 * hourMs;
/** With more than this many, they go sooner, so that old ones never keep new ones out. */
const manyApprovals = 1000;
const keepIfManyMs = hourMs;

const changed =
  'its content does not match its hash: it was changed in the store after it was requested';

const approvals = recordReader<Approval>(approvalsCollection);

export function approvalController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly authorizer: StandingParts['authorizer'];
  readonly client: ResourceClient<Approval>;
}): Controller {
  const { store, clock, client } = parts;
  const approved = approvedNames(store);
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection: approvalsCollection }),
      // Who may approve can change with each of these.
      ...[tokensCollection, bindingsCollection, rolesCollection].map(
        (collection) => new StoreSource({ store, clock, collection, keysOf: approved }),
      ),
    ],
    reconcile: async (name, { epoch }) => {
      const as = {
        controller: controllerName,
        ...(epoch === undefined ? {} : { fence: { lease: leaseName, epoch } }),
      };
      const approval = await client.get(name);
      if (approval === undefined) return undefined;
      const nowMs = clock.now();
      const { metadata, spec, status } = approval;
      const state = status?.state ?? 'pending';
      // A decided review has nothing left to be used.
      const isOpen = state === 'pending' || (state === 'approved' && spec.review !== true);
      if (!isOpen) {
        const keptMs = store.count(approvalsCollection) > manyApprovals ? keepIfManyMs : keepMs;
        // A review can be decided much later than it was created.
        const goesAtMs = Date.parse(status?.decidedAt ?? metadata.creationTimestamp) + keptMs;
        if (nowMs < goesAtMs) return { requeueAfterMs: goesAtMs - nowMs };
        await client.delete(name, as, { uid: metadata.uid });
        return undefined;
      }
      const standing = state === 'approved' ? standingOf(parts, approval, nowMs) : undefined;
      const isLost = standing?.counts === false;
      // Nobody can use or decide it. A review stays: to end it would hide what it is about.
      const isChanged = spec.review !== true && !isIntact(spec);
      if (!isChanged && !isLost && !hasExpired(spec, nowMs)) {
        const untilMs = Math.min(Date.parse(spec.expiresAt), standing?.untilMs ?? Infinity);
        return { requeueAfterMs: untilMs - nowMs };
      }
      const late =
        state === 'pending'
          ? `no decision came before ${spec.expiresAt}`
          : `approved, but not used before ${spec.expiresAt}`;
      const ended = {
        state: state === 'pending' ? 'rejected' : 'expired',
        reason: isChanged ? changed : isLost ? standing.why : late,
      };
      await client.patchStatus(
        name,
        (current) =>
          (current.status?.state ?? 'pending') === state && current.metadata.uid === metadata.uid
            ? ({ ...current.status, ...ended } as NonNullable<Approval['status']>)
            : (current.status ?? {}),
        as,
        { verb: 'approval.expired', reason: `${spec.summary}; ${ended.reason}` },
      );
      return { requeueAfterMs: 0 };
    },
  };
}

/** The names of the approved Approvals. Listed again only after a change of an Approval. */
function approvedNames(store: Pick<Store, 'list'>): () => readonly string[] {
  let from: unknown;
  let names: readonly string[] = [];
  return () => {
    const { entries } = store.list(approvalsCollection);
    if (entries !== from) {
      from = entries;
      names = approvals
        .list(store)
        .filter(({ status }) => status?.state === 'approved')
        .map(({ metadata }) => metadata.name);
    }
    return names;
  };
}

/** Gauges: Approvals by state, the age of the oldest pending one, and the tokens that can approve. */
export function observeApprovals(
  metrics: Metrics,
  store: Pick<Store, 'list'>,
  clock: Clock,
  approvers: Approvers,
): void {
  metrics.observe(
    { name: 'hansa_approvals', help: 'Approvals by state.', labels: ['state'] },
    (report) => {
      const counts = new Map<string, number>(
        ['pending', 'approved', 'rejected', 'spent', 'expired'].map((state) => [state, 0]),
      );
      for (const { status } of approvals.list(store)) {
        const state = status?.state ?? 'pending';
        counts.set(state, (counts.get(state) ?? 0) + 1);
      }
      for (const [state, count] of counts) report({ state }, count);
    },
  );
  metrics.observe(
    {
      name: 'hansa_approvals_oldest_pending_seconds',
      help: 'How long the oldest pending Approval has waited. 0 if none is pending.',
      labels: [],
    },
    (report) => {
      const waiting = approvals
        .list(store)
        .filter(({ status }) => status?.state === 'pending')
        .map(({ metadata }) => clock.now() - Date.parse(metadata.creationTimestamp));
      report({}, Math.max(0, ...waiting) / 1000);
    },
  );
  metrics.observe(
    {
      name: 'hansa_approver_tokens',
      help: 'Tokens that can approve and have not expired.',
      labels: [],
    },
    (report) => report({}, approvers.list().length),
  );
}
