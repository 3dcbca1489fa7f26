// Brings the DNS names on the copy of one federated Service in the target up to date, and tells its member
// Services what became of their names.

import { kubePath } from '../../core/kube/kube-path.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { asConflict } from '../copies/sync-term.ts';
import { collectInputs } from '../copies/collect-inputs.ts';
import { refreshMs } from '../copies/host-names.ts';
import type { PacedRun } from '../copies/origin-pacer.ts';
import { isOpen, type SyncedMember } from '../copies/synced-member.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import { namesSinceAnnotation } from '../names.ts';
import type { Service } from '../objects.ts';
import { hasSelector, isCopy } from '../services/compile-copy.ts';
import { compilePlan } from '../services/compile-plan.ts';
import { type FederatedRef, refOfKey } from '../services/federated-name.ts';
import { isOwnSlice } from '../services/slice-source.ts';
import type { Tenancy } from '../services/tenures.ts';
import { fateOf } from '../services/unreachable.ts';
import { type AskedNames, askedNames } from './asked-names.ts';
import { type Carrier, decideNames, type NameDecision } from './decide-names.ts';
import type { DnsTerm } from './dns-term.ts';
import { compileNames, type WantedNames, writtenNames } from './name-annotations.ts';
import { heldNames, recordOfNames } from './name-tenures.ts';
import { nameTargets } from './name-targets.ts';
import { syncNamedConditions } from './sync-named-conditions.ts';

/** For members whose first answer is near. Their state changes then, and all keys come again. */
const unreadMs = 5000;

export async function syncNames(
  term: DnsTerm,
  key: string,
  context: ReconcileContext,
  run: Pick<PacedRun, 'write'>,
): Promise<ReconcileResult | undefined> {
  const { member: target, members, namespace, settings, clock } = term.options;
  const ref = refOfKey(key, namespace);
  if (ref === undefined) return undefined;
  const all = members.list();
  const monotonicMs = clock.monotonic();
  const { leftOutOf } = term;
  const held = heldNames(term, ref);
  const asked = askedNames(ref, key, {
    members: all,
    settings,
    monotonicMs,
    leftOutOf,
    ...held,
  });
  for (const rival of term.claims.set(key, asked?.claims ?? [])) term.sink.add(rival);
  // Its keys come again when it answers.
  if (!target.isRead || target.state.state !== 'Ready') return undefined;
  // Names and older claims could be in a member that this process has not read yet.
  if (all.some(({ isRead, state }) => !isRead && state.state === 'Connecting')) {
    return { requeueAfterMs: unreadMs };
  }
  const copyKey = `${ref.namespace}/${ref.name}`;
  const found = target.services.byKey(copyKey);
  const copy = found !== undefined && isOurCopy(target, found) ? found : undefined;
  const { tenancy } = held;
  const given = { ref, key, asked, copy, all, monotonicMs, tenancy };
  const { decision, waits, causes, isHeld } = decide(term, given);
  const pace = (): void => run.write(causes);
  const record = isHeld
    ? copy?.metadata.annotations?.[namesSinceAnnotation]
    : recordOf(term, given);
  const copyMs = copy && (await applyNames(term, copy, decision.wanted, record, context, pace));
  const told = { ref, key, asked, copy, decision, pace };
  const toldMs = await syncNamedConditions(term, told, context);
  if (asked === undefined) term.nodeClusters.delete(key);
  const known = [...waits, copyMs, toldMs].filter((wait) => wait !== undefined);
  return known.length === 0 ? undefined : { requeueAfterMs: Math.min(...known) };
}

/** A copy that a user took over is left alone. */
function isOurCopy(member: SyncedMember, service: Service): boolean {
  const { namespace = '', deletionTimestamp } = service.metadata;
  return (
    isCopy(service) &&
    !hasSelector(service) &&
    deletionTimestamp === undefined &&
    isOpen(member, namespace)
  );
}

interface Case {
  readonly ref: FederatedRef;
  readonly key: string;
  readonly asked: AskedNames | undefined;
  readonly copy: Service | undefined;
  readonly all: readonly SyncedMember[];
  readonly monotonicMs: number;
  readonly tenancy: Tenancy;
}

const nothing: NameDecision = {
  wanted: { hostname: undefined, target: undefined },
  outcome: undefined,
  outcomeByHand: undefined,
};

interface Decided {
  readonly decision: NameDecision;
  readonly waits: readonly (number | undefined)[];
  /** The clusters whose changes lead to writes: those with members of the federated Service. */
  readonly causes: readonly string[];
  /** Whether the names stay as they are. */
  readonly isHeld?: boolean;
}

function recordOf(term: DnsTerm, { key, asked, copy }: Case): string | undefined {
  const { member, clock } = term.options;
  const live = copy?.metadata.annotations?.[namesSinceAnnotation];
  return recordOfNames(term, key, asked, member, live, clock.now());
}

function decide(term: DnsTerm, given: Case): Decided {
  const { ref, key, asked, copy, all, monotonicMs, tenancy } = given;
  const { member: target, settings } = term.options;
  const onlyOurs = [target.clusterID];
  const written = writtenNames(copy?.metadata.annotations ?? {});
  const held = all.filter(
    ({ isRead, state, settings: own }) =>
      !isRead && fateOf(state, own, undefined, monotonicMs).fate === 'use',
  );
  // The member Service that asks may be in a member that was not read.
  if (asked === undefined && held.length > 0) {
    const decision = { ...nothing, wanted: written };
    return { decision, waits: [unreadMs], causes: onlyOurs, isHeld: true };
  }
  if (asked === undefined) return { decision: nothing, waits: [], causes: onlyOurs };
  const { inputs, nextMs, hasNames } = collectInputs({
    rules: term.rules,
    ref,
    key,
    target: undefined,
    members: all,
    monotonicMs,
    names: term.hostNames,
    leftOutOf: term.leftOutOf,
    live: copy,
    liveSlices: () =>
      target.slices.byIndex('service', `${ref.namespace}/${ref.name}`).filter(isOwnSlice),
  });
  term.nodeClusters.set(
    key,
    new Set(
      inputs.flatMap(({ service }) => (service.exposure.by === 'nodes' ? service.clusterID : [])),
    ),
  );
  const { addresses, isPending } = nameTargets({
    key,
    plan: compilePlan(ref, '', inputs, true, tenancy),
    inputs,
    members: all,
    names: term.hostNames,
    leftOutOf: term.leftOutOf,
    current: written.target?.split(',') ?? [],
    held,
  });
  const decision = decideNames({
    key,
    target: target.clusterID,
    asked,
    carriers: carriersOf(all, ref),
    addresses,
    written,
    whenUnhealthy: isPending ? 'keep' : settings.whenUnhealthy,
    winner: (name) => term.claims.winner(name),
  });
  const waits = [
    nextMs && Math.max(0, nextMs - monotonicMs),
    hasNames ? refreshMs : undefined,
    held.length > 0 ? unreadMs : undefined,
  ];
  const causes = new Set(inputs.map(({ service }) => service.clusterID));
  return { decision, waits, causes: causes.size === 0 ? onlyOurs : [...causes] };
}

/** Those that Federation marks, by ID: every site prefers the same one. */
function carriersOf(members: readonly SyncedMember[], ref: FederatedRef): readonly Carrier[] {
  return members
    .filter(({ settings }) => settings.dns === true)
    .toSorted((a, b) => (a.clusterID < b.clusterID ? -1 : 1))
    .map((member) => {
      const { clusterID, isRead, state, services } = member;
      const live = services.byKey(`${ref.namespace}/${ref.name}`);
      const isFree = live === undefined || (isCopy(live) && !hasSelector(live));
      return {
        clusterID,
        isAble: isRead && state.state === 'Ready' && isFree && isOpen(member, ref.namespace),
      };
    });
}

/** Returns after how long it must be called again, if at all. */
async function applyNames(
  term: DnsTerm,
  cached: Service,
  wanted: WantedNames,
  record: string | undefined,
  context: ReconcileContext,
  pace: () => void,
): Promise<number | undefined> {
  const { member, settings } = term.options;
  const { prefix } = settings;
  const isRight = (copy: Service): boolean =>
    isNamed(copy, prefix, wanted) && copy.metadata.annotations?.[namesSinceAnnotation] === record;
  if (isRight(cached)) return undefined;
  const { namespace = '', name } = cached.metadata;
  const waitMs = term.pauseOf(`${namespace}/${name}`, pace);
  if (waitMs !== undefined) return waitMs;
  context.signal.throwIfAborted();
  const path = kubePath`/api/v1/namespaces/${namespace}/services/${name}`;
  try {
    // The cache holds only a part of a Service, and is behind our own writes.
    const fresh = await member.client.get<Service>(path);
    if (!isOurCopy(member, fresh) || isRight(fresh)) return undefined;
    const { [namesSinceAnnotation]: _, ...live } = fresh.metadata.annotations ?? {};
    const annotations = {
      ...compileNames(live, prefix, wanted),
      ...(record !== undefined && { [namesSinceAnnotation]: record }),
    };
    const changed = { ...fresh, metadata: { ...fresh.metadata, annotations } };
    await writerOf(member.client, context).replace(path, changed, fresh);
    return undefined;
  } catch (error) {
    throw asConflict(error);
  }
}

function isNamed({ metadata }: Service, prefix: string, wanted: WantedNames): boolean {
  const annotations = metadata.annotations ?? {};
  return compileNames(annotations, prefix, wanted) === annotations;
}
