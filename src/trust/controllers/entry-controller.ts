// Writes the status of a WorkloadEntry: whether workloads get its identity, on which agents, and which of
// the requested bundles are withheld, and why.

import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type ConditionUpdate, setCondition } from '../../core/reconcile/conditions.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { explainAssignment } from '../agents/explain-assignment.ts';
import { MovedEntries } from '../agents/moved-entries.ts';
import type { StoreAssignments } from '../agents/store-assignments.ts';
import { askedOf, earlier, entitlement } from '../authorization/entitlement.ts';
import type { StoreFederationState } from '../authorization/federation-state.ts';
import {
  askedTrustDomains,
  usableEntry,
  type WorkloadEntry,
} from '../workload/entries/matching-entries.ts';
import { FederationStateSource } from '../authorization/federation-state-changes.ts';

type Parts = Pick<PlaneContext, 'store' | 'clock' | 'trustDomain' | 'bundles' | 'resources'> & {
  readonly federationState: StoreFederationState;
  /** The DNS names of the site itself. */
  readonly siteNames: readonly string[];
  readonly assignments: StoreAssignments;
};

const controllerName = 'workload-entries';
const leaseName = 'controller.workload-entries';
/** The maximum number of trust domains in a message; the rest is counted. */
const mostTold = 5;
/** The number of decisions before other tasks get a turn: a few milliseconds. */
const decidedInARow = 1000;
/** As many as the kind takes. */
const mostListed = 64;

export function entryController(parts: Parts): Controller {
  const { store, clock } = parts;
  const collection = workloadEntryKind.plural;
  const entries = parts.resources<WorkloadEntry>(workloadEntryKind);
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection }),
      new FederationStateSource(parts, collection),
      new MovedEntries(parts),
    ],
    reconcile: async (name, { epoch }) => {
      const nowMs = clock.now();
      const looked = await entries.get(name);
      if (looked === undefined) return undefined;
      const agents = parts.assignments.agentsFor(looked);
      const found = await conditionsOf(looked, agents, parts, nowMs);
      const { delivered, changesAtMs } = found;
      const { uid, generation } = looked.metadata;
      const fence = epoch === undefined ? {} : { fence: { lease: leaseName, epoch } };
      await entries.patchStatus(
        name,
        (entry) => {
          // An entry that changed in the meantime is reconciled again.
          if (entry.metadata.uid !== uid || entry.metadata.generation !== generation) {
            return entry.status as NonNullable<WorkloadEntry['status']>;
          }
          let conditions = entry.status?.conditions;
          for (const condition of found.conditions) {
            conditions = setCondition(conditions, condition, nowMs);
          }
          return {
            ...entry.status,
            trustDomains: delivered.slice(0, mostListed),
            trustDomainCount: delivered.length,
            agentCount: agents.length,
            ...(conditions === undefined ? {} : { conditions }),
          };
        },
        { controller: controllerName, ...fence },
      );
      return changesAtMs === undefined ? undefined : { requeueAfterMs: changesAtMs - nowMs };
    },
  };
}

interface Found {
  readonly conditions: readonly ConditionUpdate[];
  /** The trust domains whose bundles workloads get. */
  readonly delivered: readonly string[];
  readonly changesAtMs: number | undefined;
}

async function conditionsOf(
  entry: WorkloadEntry,
  agents: readonly string[],
  parts: Parts,
  nowMs: number,
): Promise<Found> {
  const observedGeneration = entry.metadata.generation;
  const usable = usableEntry(entry, parts.trustDomain, parts.siteNames);
  if ('problem' in usable) {
    const { problem } = usable;
    return {
      changesAtMs: undefined,
      delivered: [],
      conditions: [
        { type: 'Ready', status: 'False', ...problem, observedGeneration },
        {
          type: 'Federated',
          status: 'Unknown',
          reason: problem.reason,
          message: 'The entry provides no identity.',
          observedGeneration,
        },
      ],
    };
  }
  const { id, dnsNames } = usable.entry;
  const left = (entry.spec.dnsNames ?? []).filter((name) => !dnsNames.includes(name));
  const federationState = parts.federationState.current;
  const asked = askedTrustDomains(usable.entry, federationState);
  let changesAtMs: number | undefined;
  const delivered: string[] = [];
  const withheld: string[] = [];
  for (const [at, trustDomain] of askedOf(id, asked, federationState).entries()) {
    if (at % decidedInARow === decidedInARow - 1) await yieldToEventLoop();
    const decision = entitlement(id, trustDomain, federationState, nowMs);
    changesAtMs = earlier(changesAtMs, decision.changesAtMs);
    if (decision.bundle === undefined) withheld.push(`${trustDomain}: ${decision.message}`);
    else delivered.push(trustDomain);
  }
  const more = withheld.length > mostTold ? `; and ${withheld.length - mostTold} more` : '';
  return {
    changesAtMs,
    delivered,
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'Usable',
        message: `Matching processes get ${id.toString()}.`,
        observedGeneration,
      },
      {
        ...explainAssignment(entry, agents, parts.assignments.newcomersOf(entry)),
        observedGeneration,
      },
      {
        type: 'DNSNames',
        ...(left.length === 0
          ? { status: 'True', reason: 'Issued', message: 'SVIDs have all DNS names of the entry.' }
          : {
              status: 'False',
              reason: 'NameOfSite',
              message: `SVIDs do not contain ${left.join(', ')}, because these are names of the site itself. Choose other names, or advertise the site under another name.`,
            }),
        observedGeneration,
      },
      withheld.length === 0
        ? {
            type: 'Federated',
            status: 'True',
            reason: 'Delivered',
            message: `Workloads get the bundles of ${delivered.length} other trust domains.`,
            observedGeneration,
          }
        : {
            type: 'Federated',
            status: 'False',
            reason: 'Withheld',
            message: `Withheld bundles: ${withheld.slice(0, mostTold).join('; ')}${more}.`,
            observedGeneration,
          },
    ],
  };
}
