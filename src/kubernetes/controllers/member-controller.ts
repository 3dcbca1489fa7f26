// The controller of one member that this site leads: keeps the copies of federated Services in it, their
// slices, and the conditions of its member Services as the compilers want them.

import type { Controller } from '../../core/reconcile/controller.ts';
import { leaseName } from '../names.ts';
import { MemberEvents } from '../copies/member-events.ts';
import { syncCondition } from '../copies/sync-conditions.ts';
import { parseSyncKey } from '../copies/sync-keys.ts';
import { syncService } from '../copies/sync-service.ts';
import { syncSlices } from '../copies/sync-slices.ts';
import { type SyncOptions, SyncTerm } from '../copies/sync-term.ts';

/** Writes into one member at once. */
const parallelism = 8;
/** Of one run; a request has ten seconds. */
const timeoutMs = 30_000;
/** A member that does not answer is asked again soon: others are not delayed by it. */
const backOff = { firstMs: 50, longestMs: 30_000 } as const;

export function memberController(options: SyncOptions): Controller {
  let term: SyncTerm | undefined;
  return {
    name: `league-${options.member.clusterID}`,
    lease: leaseName,
    parallelism,
    timeoutMs,
    backOff,
    sources: [
      {
        start: (sink) => {
          term = new SyncTerm(options, sink);
          return new MemberEvents(term);
        },
      },
    ],
    reconcile: async (key, context) => {
      if (term === undefined) return undefined;
      const parsed = parseSyncKey(key);
      switch (parsed.type) {
        case 'slices':
          return syncSlices(term, parsed.federated, parsed.source, context);
        case 'condition':
          return syncCondition(term, parsed.service, context);
        default:
          return syncService(term, parsed.federated, context);
      }
    },
  };
}
