// The part of the member controller that keeps the copies of federated Services, their slices, and the
// conditions of member Services as the compilers want them.

import type { MemberPart } from '../controllers/member-controller.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import type { SourceSink } from '../../core/reconcile/source.ts';
import { annotatedCopies } from './annotated-copies.ts';
import type { CopyRules } from './copy-rules.ts';
import { MemberEvents } from './member-events.ts';
import { paced, type PacedRun } from './origin-pacer.ts';
import { syncCondition } from './sync-conditions.ts';
import { parseSyncKey } from './sync-keys.ts';
import { syncLimits } from './sync-limits.ts';
import { syncService } from './sync-service.ts';
import { syncSlices } from './sync-slices.ts';
import { type SyncOptions, SyncTerm } from './sync-term.ts';

/** Of annotated Services. */
export function copiesPart(options: SyncOptions): MemberPart {
  return partWith('copies', options, () => annotatedCopies(options.namespace));
}

/** `rulesOf` is called at the begin of each term. */
export function partWith(
  name: string,
  options: SyncOptions,
  rulesOf: (sink: Pick<SourceSink, 'add'>) => CopyRules,
): MemberPart {
  let term: SyncTerm | undefined;
  return {
    name,
    start: (sink) => {
      term = new SyncTerm(options, rulesOf(sink), sink);
      return new MemberEvents(term);
    },
    reconcile: async (key, context) => {
      const current = term;
      if (current === undefined) return undefined;
      return paced(current.pacer, key, (run) => reconcile(current, key, context, run));
    },
  };
}

function reconcile(
  term: SyncTerm,
  key: string,
  context: ReconcileContext,
  run: PacedRun,
): Promise<ReconcileResult | undefined> {
  const parsed = parseSyncKey(key);
  switch (parsed.type) {
    case 'slices':
      return syncSlices(term, parsed.federated, parsed.source, context, run);
    case 'condition':
      return syncCondition(term, parsed.service, context, run);
    case 'limits':
      syncLimits(term, parsed.clusterID);
      return Promise.resolve(undefined);
    default:
      return syncService(term, parsed.federated, context, run);
  }
}
