// Brings one VM Service and its slices up to date.

import { jsonEquals } from '../../api/schema/json.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { applyService, type OwnedServices } from '../copies/apply-service.ts';
import { removeSlice, writeSlice } from '../copies/apply-slice.ts';
import { keyOf } from '../copies/live-slices.ts';
import { isOpen } from '../copies/synced-member.ts';
import type { EndpointSlice, Service } from '../objects.ts';
import { hasSelector, isHeadless } from '../services/compile-copy.ts';
import type { Outcome } from '../services/compile-plan.ts';
import {
  compileVmService,
  isSameVmService,
  repairedVmService,
  type VmServicePlan,
} from './compile-vm-service.ts';
import { compileVmSlices } from './compile-vm-slices.ts';
import { machineKey } from './vm-keys.ts';
import { isDisposableVmService, isVmService } from './vm-marks.ts';
import type { VmTerm } from './vm-term.ts';

/** The cluster may not serve machines, or the site may not read them. Then all VM Services stay as they are. */
const unreadMs = 30_000;

/** Why the Service is not as the machines want it. */
type ServiceProblem = 'ServiceConflict' | 'ServiceHasSelector';

/** `key` is NAMESPACE/NAME of the Service. */
export async function syncVmService(
  term: VmTerm,
  key: string,
  context: ReconcileContext,
): Promise<ReconcileResult | undefined> {
  const { member } = term.options;
  const { namespaces, virtualMachines } = member;
  if (!member.isRead || !namespaces.isSynced || !virtualMachines.isSynced) {
    return { requeueAfterMs: unreadMs };
  }
  const slash = key.indexOf('/');
  const [namespace, name] = [key.slice(0, slash), key.slice(slash + 1)];
  if (!isOpen(member, namespace)) return undefined;
  const plan = planOf(term, key, namespace, name);
  const live = term.services.live(key);
  const problem = plan.service === undefined ? undefined : problemOf(live);
  const service =
    problem === undefined
      ? await applyService(term, vmServices, plan.service, live, context)
      : undefined;
  // A user who gave it a selector has taken it over, with its slices.
  if (problem !== 'ServiceHasSelector') {
    const slices = service === undefined ? [] : compileVmSlices(service, plan.backends);
    await syncSlices(term, key, slices, context);
  }
  tell(term, key, withProblem(plan, problem, key));
  return undefined;
}

const vmServices: OwnedServices = {
  isTaken: (live) => problemOf(live) !== undefined,
  isDisposable: isDisposableVmService,
  isBeyondRepair: isHeadless,
  isSame: isSameVmService,
  repaired: repairedVmService,
};

function planOf(term: VmTerm, key: string, namespace: string, name: string): VmServicePlan {
  const { member, namespace: systemNamespace } = term.options;
  const { clusterID, virtualMachines } = member;
  const vms = virtualMachines
    .byIndex('service', key)
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return compileVmService({ clusterID, namespace, name, vms, systemNamespace });
}

function problemOf(live: Service | undefined): ServiceProblem | undefined {
  if (live === undefined) return undefined;
  if (!isVmService(live)) return 'ServiceConflict';
  return hasSelector(live) ? 'ServiceHasSelector' : undefined;
}

function withProblem(
  { outcomes }: VmServicePlan,
  problem: ServiceProblem | undefined,
  key: string,
): ReadonlyMap<string, Outcome> {
  if (problem === undefined) return outcomes;
  const message =
    problem === 'ServiceConflict'
      ? `There is a Service ${key} that does not belong to VirtualMachines. Rename it, or use another name in the tag.`
      : `The Service ${key} has a selector, so its endpoints are no longer updated. Remove the selector.`;
  const told: Outcome = { status: 'False', reason: problem, message };
  return new Map(
    [...outcomes].map(([name, { status, ...rest }]) => [
      name,
      status === 'False' ? { status, ...rest } : told,
    ]),
  );
}

/** Says which machines must be told something new. */
function tell(term: VmTerm, key: string, outcomes: ReadonlyMap<string, Outcome>): void {
  const namespace = key.slice(0, key.indexOf('/'));
  const before = term.states.get(key)?.outcomes;
  if (outcomes.size === 0) term.states.delete(key);
  else term.states.set(key, { outcomes });
  for (const [name, outcome] of outcomes) {
    if (!jsonEquals(before?.get(name), outcome)) term.sink.add(machineKey(`${namespace}/${name}`));
  }
}

async function syncSlices(
  term: VmTerm,
  key: string,
  wanted: readonly EndpointSlice[],
  context: ReconcileContext,
): Promise<void> {
  const names = new Set(wanted.map(keyOf));
  // New ones first: a moment with an endpoint in two slices is better than one without it.
  for (const slice of wanted) await writeSlice(term, slice, context);
  for (const source of term.slices.sourcesOf(key)) {
    for (const live of term.slices.slicesOf({ copy: key, source })) {
      if (!names.has(keyOf(live))) await removeSlice(term, live, context);
    }
  }
}
