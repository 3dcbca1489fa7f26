// The part of the member controller that writes ExternalEntities of Antrea, so that policies can select federated
// Services.

import type { MemberPart } from '../controllers/member-controller.ts';
import { paced } from '../copies/origin-pacer.ts';
import { nothingLeftOut } from '../copies/origin-usage.ts';
import { EntityEvents } from './entity-events.ts';
import { parseEntityKey } from './entity-keys.ts';
import { type EntityOptions, EntityTerm } from './entity-term.ts';
import { syncEntities } from './sync-entities.ts';

export function entitiesPart(options: EntityOptions): MemberPart {
  let term: EntityTerm | undefined;
  return {
    name: 'entities',
    start: (sink) => {
      term = new EntityTerm(options, sink);
      return new EntityEvents(term);
    },
    reconcile: async (key, context) => {
      const current = term;
      if (current === undefined) return undefined;
      const parsed = parseEntityKey(key);
      if (parsed.type === 'service') {
        return paced(current.pacer, key, (run) =>
          syncEntities(current, parsed.federated, context, run),
        );
      }
      syncLimits(current, parsed.clusterID);
      return undefined;
    },
  };
}

/** Adds the federated Services whose members exceed the limits of their cluster, or did at the last look. */
function syncLimits(term: EntityTerm, clusterID: string): void {
  const before = term.leftOut.get(clusterID) ?? nothingLeftOut;
  const now = term.leftOutOf({ clusterID });
  if (now === before) return;
  if (now === nothingLeftOut) term.leftOut.delete(clusterID);
  else term.leftOut.set(clusterID, now);
  for (const key of new Set([...before.federated.values(), ...now.federated.values()])) {
    term.sink.add(key);
  }
}
