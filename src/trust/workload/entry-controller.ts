// Tells in the status of a WorkloadEntry whether workloads get its identity, and which bundles it
// asks for but does not get, and why.

import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { TrustDomain } from '../../api/trust-domain.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type ConditionUpdate, setCondition } from '../../core/reconcile/conditions.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { entitlements } from '../entitlement.ts';
import { relationCollections, type StoreRelations } from '../relations.ts';
import { usableEntry, type WorkloadEntry } from './matching-entries.ts';

type Parts = Pick<PlaneContext, 'store' | 'clock' | 'trustDomain' | 'bundles' | 'resources'> & {
  readonly relations: StoreRelations;
};

const controllerName = 'workload-entries';
const leaseName = 'controller.workload-entries';
/** So many trust domains are told of in a message; the rest is counted. */
const mostTold = 5;

export function entryController(parts: Parts): Controller {
  const { store, clock } = parts;
  const collection = workloadEntryKind.plural;
  const entries = parts.resources<WorkloadEntry>(workloadEntryKind);
  const all = (): readonly string[] => store.list(collection).entries.map(({ name }) => name);
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection }),
      ...relationCollections.map(
        (related) => new StoreSource({ store, clock, collection: related, keysOf: all }),
      ),
    ],
    reconcile: async (name, { epoch }) => {
      const nowMs = clock.now();
      let changesAtMs: number | undefined;
      const fence = epoch === undefined ? {} : { fence: { lease: leaseName, epoch } };
      await entries.patchStatus(
        name,
        (entry) => {
          const found = conditionsOf(entry, parts, nowMs);
          ({ changesAtMs } = found);
          let conditions = entry.status?.conditions;
          for (const condition of found.conditions) {
            conditions = setCondition(conditions, condition, nowMs);
          }
          return { ...entry.status, ...(conditions === undefined ? {} : { conditions }) };
        },
        { controller: controllerName, ...fence },
      );
      return changesAtMs === undefined ? undefined : { requeueAfterMs: changesAtMs - nowMs };
    },
  };
}

function conditionsOf(
  entry: WorkloadEntry,
  parts: Parts,
  nowMs: number,
): { readonly conditions: readonly ConditionUpdate[]; readonly changesAtMs: number | undefined } {
  const observedGeneration = entry.metadata.generation;
  const usable = usableEntry(entry, parts.trustDomain);
  if ('problem' in usable) {
    const { problem } = usable;
    return {
      changesAtMs: undefined,
      conditions: [
        { type: 'Ready', status: 'False', ...problem, observedGeneration },
        {
          type: 'Federated',
          status: 'Unknown',
          reason: problem.reason,
          message: 'The entry gives no identity.',
          observedGeneration,
        },
      ],
    };
  }
  const { id, federatesWith } = usable.entry;
  const { decisions, changesAtMs } = entitlements(
    id,
    federatesWith,
    parts.relations.current,
    nowMs,
  );
  const withheld = decisions.flatMap(({ trustDomain, given, message }) => {
    if (!given) return [`${trustDomain}: ${message}`];
    const held = parts.bundles.bundleFor(TrustDomain.parse(trustDomain));
    return held === undefined ? [`${trustDomain}: no bundle is believed now`] : [];
  });
  const more = withheld.length > mostTold ? `; and ${withheld.length - mostTold} more` : '';
  return {
    changesAtMs,
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'Usable',
        message: `Processes that match get ${id.toString()}.`,
        observedGeneration,
      },
      withheld.length === 0
        ? {
            type: 'Federated',
            status: 'True',
            reason: 'Delivered',
            message: `They get the bundles of ${decisions.length} other trust domains.`,
            observedGeneration,
          }
        : {
            type: 'Federated',
            status: 'False',
            reason: 'Withheld',
            message: `Bundles that are not delivered: ${withheld.slice(0, mostTold).join('; ')}${more}.`,
            observedGeneration,
          },
    ],
  };
}
