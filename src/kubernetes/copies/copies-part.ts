// The part of the member controller that keeps the copies of federated Services, their slices, and the
// conditions of member Services as the compilers want them.

import type { MemberPart } from '../controllers/member-controller.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { MemberEvents } from './member-events.ts';
import { Paced, type PacedRun } from './origin-pacer.ts';
import { syncCondition } from './sync-conditions.ts';
import { parseSyncKey } from './sync-keys.ts';
import { syncLimits } from './sync-limits.ts';
import { syncService } from './sync-service.ts';
import { syncSlices } from './sync-slices.ts';
import { type SyncOptions, SyncTerm } from './sync-term.ts';

export function copiesPart(options: SyncOptions): MemberPart {
  let term: SyncTerm | undefined;
  return {
    name: 'copies',
    start: (sink) => {
      term = new SyncTerm(options, sink);
      return new MemberEvents(term);
    },
    reconcile: async (key, context) => {
      if (term === undefined) return undefined;
      const run = term.pacer.begin(key);
      try {
        return await reconcile(term, key, context, run);
      } catch (error) {
        // It is added again when it may write.
        if (error instanceof Paced) return undefined;
        throw error;
      } finally {
        run.end();
      }
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
