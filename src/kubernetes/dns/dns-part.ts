// The part of the member controller that puts DNS names on copies, in annotations that ExternalDNS reads.

import type { MemberPart } from '../controllers/member-controller.ts';
import { paced } from '../copies/origin-pacer.ts';
import { nothingLeftOut } from '../copies/origin-usage.ts';
import { DnsEvents } from './dns-events.ts';
import { parseDnsKey } from './dns-keys.ts';
import { type DnsOptions, DnsTerm } from './dns-term.ts';
import { syncLeftCondition } from './sync-named-conditions.ts';
import { syncNames } from './sync-names.ts';

export function dnsPart(options: DnsOptions): MemberPart {
  let term: DnsTerm | undefined;
  return {
    name: 'dns',
    start: (sink) => {
      term = new DnsTerm(options, sink);
      return new DnsEvents(term);
    },
    reconcile: async (key, context) => {
      const current = term;
      if (current === undefined) return undefined;
      const parsed = parseDnsKey(key);
      switch (parsed.type) {
        case 'limits':
          syncLimits(current, parsed.clusterID);
          return undefined;
        case 'left': {
          const waitMs = await syncLeftCondition(current, parsed.service, context);
          return waitMs === undefined ? undefined : { requeueAfterMs: waitMs };
        }
        default:
          return paced(current.pacer, key, (run) =>
            syncNames(current, parsed.federated, context, run),
          );
      }
    },
  };
}

/** Adds the federated Services whose members exceed the limits of their cluster, or did at the last look. */
function syncLimits(term: DnsTerm, clusterID: string): void {
  const before = term.leftOut.get(clusterID) ?? nothingLeftOut;
  const now = term.leftOutOf({ clusterID });
  if (now === before) return;
  if (now === nothingLeftOut) term.leftOut.delete(clusterID);
  else term.leftOut.set(clusterID, now);
  for (const key of new Set([...before.federated.values(), ...now.federated.values()])) {
    term.sink.add(key);
  }
}
