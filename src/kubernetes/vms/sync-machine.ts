// Tells a machine in its status which Service it is a backend of, or why it is not. The cache holds only a part
// of a machine, so it is read before its status is written.

import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import { virtualMachineKind } from '../../api/kinds/virtual-machine.ts';
import { clustersGroup } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { bounded } from '../copies/sync-conditions.ts';
import { asConflict } from '../copies/sync-term.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import type { Outcome } from '../services/compile-plan.ts';
import { vmServiceKey } from './vm-keys.ts';
import { serviceOfVm } from './vm-tags.ts';
import type { CachedMachine, VmTerm } from './vm-term.ts';

/** The condition of machines with a tag. */
export const publishedCondition = 'Published';

/** Between two writes for one machine, so that a flapping tag does not become a flood of writes. */
const pauseMs = 1000;

interface Told {
  /** Undefined: it is a backend of no Service. */
  readonly service: string | undefined;
  /** Undefined: it has no tag. */
  readonly outcome: Outcome | undefined;
}

/** `key` is NAMESPACE/NAME of the machine. */
export async function syncMachine(
  term: VmTerm,
  key: string,
  context: ReconcileContext,
): Promise<ReconcileResult | undefined> {
  const { member, clock } = term.options;
  const cached = term.machines.live(key);
  if (cached === undefined) {
    term.toldMs.delete(key);
    return undefined;
  }
  if (!member.isRead || cached.metadata.deletionTimestamp !== undefined) return undefined;
  const told = toldOf(term, cached);
  if (told === undefined || isTold(cached, told)) return undefined;
  const nowMs = clock.monotonic();
  const readyMs = (term.toldMs.get(key) ?? nowMs - pauseMs) + pauseMs;
  if (readyMs > nowMs) return { requeueAfterMs: readyMs - nowMs };
  context.signal.throwIfAborted();
  const { namespace = '', name } = cached.metadata;
  const path = `/apis/${clustersGroup}/${version}${kubePath`/namespaces/${namespace}/${virtualMachineKind.plural}/${name}`}`;
  try {
    const fresh = await term.client.get<CachedMachine>(path);
    const { namespace: systemNamespace } = term.options;
    // The watch will tell what changed meanwhile.
    const isSame =
      JSON.stringify(serviceOfVm(fresh, systemNamespace)) ===
      JSON.stringify(serviceOfVm(cached, systemNamespace));
    if (!isSame || isTold(fresh, told)) return undefined;
    term.toldMs.set(key, nowMs);
    const changed = { ...fresh, status: statusWith(fresh.status, told, clock.now()) };
    const written = await writerOf(term.client, context).replaceStatus(path, changed);
    term.machines.wrote(key, written, fresh);
    return undefined;
  } catch (error) {
    term.machines.forget(key);
    // It was deleted meanwhile.
    if (error instanceof KubeStatusError && error.status === 404) return undefined;
    throw asConflict(error);
  }
}

/** Undefined where the run of its Service has not decided yet. */
function toldOf(term: VmTerm, machine: CachedMachine): Told | undefined {
  const { namespace = '', name } = machine.metadata;
  const service = serviceOfVm(machine, term.options.namespace);
  if (service === undefined) return { service: undefined, outcome: undefined };
  if (typeof service !== 'string') {
    return { service: undefined, outcome: { status: 'False', ...service } };
  }
  const outcome = term.states.get(`${namespace}/${service}`)?.outcomes.get(name);
  if (outcome === undefined) {
    term.sink.add(vmServiceKey(`${namespace}/${service}`));
    return undefined;
  }
  return { service: outcome.status === 'True' ? service : undefined, outcome };
}

function isTold({ status }: VirtualMachine, { service, outcome }: Told): boolean {
  const found = findCondition(status?.conditions, publishedCondition);
  if (status?.service !== service) return false;
  if (outcome === undefined) return found === undefined;
  return (
    found?.status === outcome.status &&
    found.reason === outcome.reason &&
    found.message === bounded(outcome.message)
  );
}

function statusWith(
  status: VirtualMachine['status'],
  { service, outcome }: Told,
  nowMs: number,
): NonNullable<VirtualMachine['status']> {
  const { service: _, ...rest } = status ?? {};
  const conditions =
    outcome === undefined
      ? (status?.conditions ?? []).filter(({ type }) => type !== publishedCondition)
      : setCondition(
          status?.conditions,
          { ...outcome, type: publishedCondition, message: bounded(outcome.message) },
          nowMs,
        );
  return { ...rest, ...(service !== undefined && { service }), conditions };
}
