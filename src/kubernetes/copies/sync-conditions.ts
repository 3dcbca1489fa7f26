// Tells member Services of the target, in a condition of their status, what became of them. The cache
// holds only a part of a Service, so a Service is read before its status is written.

import { jsonEquals } from '../../api/schema/json.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import { memberCondition } from '../names.ts';
import type { Condition, Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import type { Outcome, Plan } from '../services/compile-plan.ts';
import {
  type AnnotatedRef,
  federatedRefOf,
  isRef,
  keyOfRef,
  type NameProblem,
} from '../services/federated-name.ts';
import type { PacedRun } from './origin-pacer.ts';
import { asConflict, type CopyProblem, type SyncTerm } from './sync-term.ts';

/** Of the whole message; a Service may have many conflicts. */
const maxMessageLength = 4096;

/** Of one run. A name may have thousands of Services, and a run must end. */
const mostWrites = 50;

/** Between two writes for one Service, so that a flapping endpoint does not become a flood of writes. */
const pauseMs = 1000;

/** Returns after how long it must be called again, if at all. A NativeService has no status. */
export async function syncConditions(
  term: SyncTerm,
  { ref, target, outcomes }: Plan,
  problem: CopyProblem | undefined,
  context: ReconcileContext,
  pace: () => void,
): Promise<number | undefined> {
  const key = keyOfRef(ref);
  const isStill = (service: Service): boolean => {
    const found = refIn(term, service);
    return isRef(found) && keyOfRef(found) === key;
  };
  let waitMs: number | undefined;
  let writes = 0;
  for (const [member, outcome] of outcomes) {
    const [clusterID, kind, namespace, name] = member.split('/');
    if (clusterID !== target || kind !== 'Service' || !namespace || !name) continue;
    const told = problem === undefined ? outcome : withProblem(outcome, problem, ref);
    if (writes >= mostWrites) return 0;
    const service = `${namespace}/${name}`;
    const toldMs = term.toldMs.get(service);
    const ownMs = await writeCondition(term, service, told, isStill, context, pace);
    writes += term.toldMs.get(service) === toldMs ? 0 : 1;
    if (ownMs !== undefined) waitMs = Math.min(waitMs ?? pauseMs, ownMs);
  }
  return waitMs;
}

/** For a Service whose annotation names no federated Service: says why, or removes the condition. */
export async function syncCondition(
  term: SyncTerm,
  key: string,
  context: ReconcileContext,
  run: PacedRun,
): Promise<ReconcileResult | undefined> {
  const service = term.services.live(key);
  if (service === undefined) return undefined;
  const found = refIn(term, service);
  // The run of its federated Service decides.
  if (isRef(found)) return undefined;
  const outcome = found && ({ status: 'False', ...found } as const);
  const isStill = (fresh: Service): boolean => jsonEquals(refIn(term, fresh), found);
  const pace = (): void => run.write([term.options.member.clusterID]);
  const waitMs = await writeCondition(term, key, outcome, isStill, context, pace);
  return waitMs === undefined ? undefined : { requeueAfterMs: waitMs };
}

function refIn({ options }: SyncTerm, service: Service): AnnotatedRef | NameProblem | undefined {
  return isCopy(service) ? undefined : federatedRefOf(service.metadata, options.namespace);
}

function withProblem(
  { status, reason, message }: Outcome,
  problem: CopyProblem,
  { namespace, name }: Plan['ref'],
): Outcome {
  const text =
    problem === 'CopyConflict'
      ? `This cluster has a Service ${namespace}/${name} that is not a copy, so it gets no copy. Rename that Service, or federate under another name.`
      : `The copy ${namespace}/${name} in this cluster has a selector, so its endpoints are no longer updated. Remove the selector.`;
  return status === 'False'
    ? { status, reason, message: `${message} ${text}` }
    : { status, reason: problem, message: text };
}

/**
 * Writes nothing where the Service that was read is no longer the one that the outcome is about: the watch
 * will say so. Returns how long it must wait, if it must.
 */
async function writeCondition(
  term: SyncTerm,
  key: string,
  outcome: Outcome | undefined,
  isStill: (service: Service) => boolean,
  context: ReconcileContext,
  pace: () => void,
): Promise<number | undefined> {
  const { member, clock } = term.options;
  const cached = term.services.live(key);
  if (cached === undefined) term.toldMs.delete(key);
  if (cached === undefined || isTold(cached, outcome)) return undefined;
  const nowMs = clock.monotonic();
  const readyMs = (term.toldMs.get(key) ?? nowMs - pauseMs) + pauseMs;
  if (readyMs > nowMs) return readyMs - nowMs;
  pace();
  context.signal.throwIfAborted();
  const { namespace = '', name } = cached.metadata;
  try {
    const path = kubePath`/api/v1/namespaces/${namespace}/services/${name}`;
    const fresh = await member.client.get<Service>(path);
    if (!isStill(fresh) || isTold(fresh, outcome)) return undefined;
    const conditions = conditionsWith(fresh.status?.conditions ?? [], outcome, clock.now());
    const changed = { ...fresh, status: { ...fresh.status, conditions } };
    term.toldMs.set(key, nowMs);
    const written = await writerOf(member.client, context).replaceStatus(path, changed);
    term.services.wrote(key, written, fresh);
    return undefined;
  } catch (error) {
    term.services.forget(key);
    // It was deleted meanwhile.
    if (error instanceof KubeStatusError && error.status === 404) return undefined;
    throw asConflict(error);
  }
}

function isTold({ status }: Service, outcome: Outcome | undefined): boolean {
  const found = findCondition(status?.conditions, memberCondition);
  if (outcome === undefined) return found === undefined;
  return (
    found !== undefined &&
    found.status === outcome.status &&
    found.reason === outcome.reason &&
    found.message === bounded(outcome.message)
  );
}

function conditionsWith(
  conditions: readonly Condition[],
  outcome: Outcome | undefined,
  nowMs: number,
): readonly Condition[] {
  if (outcome === undefined) return conditions.filter(({ type }) => type !== memberCondition);
  const { status, reason, message } = outcome;
  const update = { type: memberCondition, status, reason, message: bounded(message) };
  return setCondition(conditions, update, nowMs);
}

export function bounded(message: string): string {
  return message.length > maxMessageLength ? `${message.slice(0, maxMessageLength - 1)}…` : message;
}
