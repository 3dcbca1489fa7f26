// Brings the copy of one federated Service in the target up to date, and says which of its slices must be
// looked at.

import { jsonEquals } from '../../api/schema/json.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import type { Service } from '../objects.ts';
import { compilePlan, type Plan } from '../services/compile-plan.ts';
import { refOfKey } from '../services/federated-name.ts';
import { parseSourceID, sourceID } from '../services/slice-source.ts';
import { applyService } from './apply-service.ts';
import { collectInputs, isReachedByPods, sourceSlices } from './collect-inputs.ts';
import { findTenancy } from './find-tenancy.ts';
import type { Prepared } from './copy-rules.ts';
import { refreshMs } from './host-names.ts';
import type { PacedRun } from './origin-pacer.ts';
import { slicesKey } from './sync-keys.ts';
import { DoneSources, type FederatedState, type SyncTerm } from './sync-term.ts';
import { isOpen } from './synced-member.ts';

/** The state of a member changes when it has been read, and then all keys come again; this is for safety. */
const unreadMs = 5000;

export async function syncService(
  term: SyncTerm,
  key: string,
  context: ReconcileContext,
  run: PacedRun,
): Promise<ReconcileResult | undefined> {
  const causes = term.takeCauses(key);
  try {
    return await sync(term, key, context, () => run.write(causes));
  } catch (error) {
    // The next run goes on with the same work.
    term.caused(key, causes);
    throw error;
  }
}

async function sync(
  term: SyncTerm,
  key: string,
  context: ReconcileContext,
  pace: () => void,
): Promise<ReconcileResult | undefined> {
  const { client, services, rules } = term;
  const { member: target, members, clock, namespace } = term.options;
  const ref = refOfKey(key, namespace);
  if (ref === undefined || (ref.scope === 'namespaced' && ref.namespace === namespace)) {
    return undefined;
  }
  if (!target.isRead || !target.namespaces.isSynced) return { requeueAfterMs: unreadMs };
  const copyKey = `${ref.namespace}/${ref.name}`;
  const serviceKey = rules.serviceOf(ref);
  const live = term.services.live(serviceKey);
  const monotonicMs = clock.monotonic();
  const { inputs, origins, held, nextMs, hasNames, isWaiting } = collectInputs({
    rules,
    ref,
    key,
    target,
    members: members.list(),
    monotonicMs,
    names: term.names,
    leftOutOf: ({ clusterID }) => term.leftOutOf(clusterID),
    live,
    liveSlices: () =>
      term.slices
        .sourcesOf(copyKey)
        .flatMap((source) => term.slices.slicesOf({ copy: copyKey, source })),
  });
  const hasSlices = term.slices.sourcesOf(copyKey).length > 0;
  if (inputs.length === 0 && live === undefined && !hasSlices && rules.isIdle(term, ref)) {
    term.states.delete(key);
    return undefined;
  }
  const tenancy = findTenancy({
    rules,
    ref,
    target,
    members: members.list(),
    live,
    nowMs: clock.now(),
  });
  const plan = compilePlan(ref, target.clusterID, inputs, rules.prefersLocal, tenancy);
  const hasNamespace = isOpen(target, ref.namespace);
  const taken = plan.ports.length === 0 || live === undefined ? undefined : rules.problemOf(live);
  const prepared: Prepared =
    hasNamespace && taken === undefined
      ? await rules.prepare(term, plan, live, context, pace)
      : { isFrozen: !hasNamespace };
  const problem = taken ?? prepared.problem;
  const isWanted = prepared.problem === undefined && prepared.isUnwanted !== true;
  const wanted = isWanted ? rules.compile(plan, live, prepared.owner) : undefined;
  let copy: Service | undefined;
  let failure: unknown;
  if (prepared.isFrozen !== true && taken === undefined) {
    try {
      copy = await applyService({ client, services, pace }, rules.owned, wanted, live, context);
    } catch (error) {
      if (hasCode(error, 'HANSA_CONFLICT') || context.signal.aborted) throw error;
      // Endpoints are followed even if the copy cannot be changed.
      failure = error;
      copy = wanted && live;
    }
  }
  const previous = term.states.get(key);
  const isFrozen = prepared.isFrozen === true || problem === 'CopyHasSelector';
  const parts = { plan, inputs, origins, held, copy, problem, isFrozen };
  const state = { ...parts, done: new DoneSources(stillDone(previous, parts)) };
  term.states.set(key, state);
  if (problem !== undefined && problem !== previous?.problem) {
    context.log.warn('a Service of a user has the place of a copy', {
      problem,
      service: serviceKey,
    });
  }
  addSlices(term, key, copyKey, state);
  if (failure !== undefined) throw failure;
  const conditionMs = await rules.finish(term, plan, { copy, problem, isFrozen }, context, pace);
  return soonest([
    conditionMs,
    nextMs && Math.max(0, nextMs - monotonicMs),
    hasNames ? refreshMs : undefined,
    isWaiting || plan.isProvisional ? unreadMs : undefined,
    prepared.waitMs,
  ]);
}

function soonest(waits: readonly (number | undefined)[]): ReconcileResult | undefined {
  const known = waits.filter((wait) => wait !== undefined);
  return known.length === 0 ? undefined : { requeueAfterMs: Math.min(...known) };
}

/** The sources whose slices need no look, because nothing that they depend on has changed. */
function stillDone(
  previous: FederatedState | undefined,
  state: Omit<FederatedState, 'done'>,
): readonly string[] {
  if (
    previous === undefined ||
    previous.isFrozen !== state.isFrozen ||
    previous.copy?.metadata.uid !== state.copy?.metadata.uid ||
    previous.held.size > 0 ||
    state.held.size > 0
  ) {
    return [];
  }
  const same = new Map<string, boolean>();
  const isSame = (member: string): boolean => {
    const known = same.get(member);
    if (known !== undefined) return known;
    const [before, now] = [previous, state].map(({ plan }) => plan.participants.get(member));
    const found = jsonEquals(before, now);
    same.set(member, found);
    return found;
  };
  return previous.done.all().filter((source) => {
    const member = parseSourceID(source)?.member;
    return member !== undefined && isSame(member);
  });
}

function addSlices(term: SyncTerm, key: string, copyKey: string, state: FederatedState): void {
  if (state.isFrozen) return;
  const wanted = new Set(state.copy === undefined ? [] : sourcesOf(term, state.plan));
  for (const source of [...wanted, ...term.slices.sourcesOf(copyKey)]) {
    const isDone = wanted.has(source) && state.done.has(source);
    if (!isDone) term.sink.add(slicesKey(key, source));
  }
}

/** The sources of all participants that have been read. */
function sourcesOf({ options }: SyncTerm, { participants }: Plan): readonly string[] {
  return [...participants.values()].flatMap(({ service, isLocal }) => {
    const member = options.members.get(service.clusterID);
    if (member === undefined || !member.isRead) return [];
    return isReachedByPods(service, isLocal)
      ? sourceSlices(member, service).map(({ metadata }) => sourceID(service, metadata.name))
      : [sourceID(service)];
  });
}
