// Brings the ExternalEntities of one copy in the target up to date. Unlike its slices, they hold the endpoints of
// all members, also while a local one is ready: a policy must select clients in other clusters.

import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { annotatedCopies } from '../copies/annotated-copies.ts';
import {
  collectInputs,
  hasHostNames,
  isReachedByPods,
  outsideAddresses,
  sourceSlices,
} from '../copies/collect-inputs.ts';
import { findTenancy } from '../copies/find-tenancy.ts';
import { refreshMs } from '../copies/host-names.ts';
import { Paced, type PacedRun } from '../copies/origin-pacer.ts';
import { asConflict } from '../copies/sync-term.ts';
import { isOpen, type SyncedMember, usableOf } from '../copies/synced-member.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import { originKey } from '../names.ts';
import type { EndpointSlice, Service } from '../objects.ts';
import { hasSelector, isCopy } from '../services/compile-copy.ts';
import { compilePlan, type Participant } from '../services/compile-plan.ts';
import { compileAddressSlices, compilePodSlices } from '../services/compile-slices.ts';
import { type FederatedRef, refOfKey } from '../services/federated-name.ts';
import { keyOfMember } from '../services/member-service.ts';
import { isOwnSlice } from '../services/slice-source.ts';
import { fateOf } from '../services/unreachable.ts';
import {
  compileExternalEntities,
  type ExternalEntity,
  isOwnEntity,
  isSameEntity,
  pathOfEntities,
  pathOfEntity,
} from './compile-external-entities.ts';
import { type EntityTerm, servesEntities } from './entity-term.ts';

/** For members whose first answer is near. Their state changes then, and all keys come again. */
const unreadMs = 5000;

interface Wanted {
  readonly entities: readonly ExternalEntity[];
  /** Clusters whose ExternalEntities stay as they are, because their endpoints are not known now. */
  readonly kept: ReadonlySet<string>;
  readonly waits: readonly (number | undefined)[];
}

/** `key` is that of the federated Service. */
export async function syncEntities(
  term: EntityTerm,
  key: string,
  context: ReconcileContext,
  run: Pick<PacedRun, 'write' | 'deletes'>,
): Promise<ReconcileResult | undefined> {
  const { member: target, members, namespace } = term.options;
  const ref = refOfKey(key, namespace);
  // Its keys come again when it answers, or serves the kind.
  if (ref === undefined || !servesEntities(target)) return undefined;
  if (!target.isRead || target.state.state !== 'Ready') return undefined;
  if (!isOpen(target, ref.namespace)) return undefined;
  const place = `${ref.namespace}/${ref.name}`;
  // To compile all ExternalEntities of a copy costs more than to write one.
  const pauseMs = term.pauseOf(place);
  if (pauseMs !== undefined) return { requeueAfterMs: pauseMs };
  if (members.list().some(({ isRead, state }) => !isRead && state.state === 'Connecting')) {
    return { requeueAfterMs: unreadMs };
  }
  const copy = ourCopy(target.services.byKey(place));
  if (copy === undefined) term.nodeClusters.delete(key);
  const wanted = copy === undefined ? nothing : wantedFor(term, ref, key, copy);
  await apply(term, place, wanted, context, run);
  const waits = wanted.waits.filter((wait) => wait !== undefined);
  return waits.length === 0 ? undefined : { requeueAfterMs: Math.min(...waits) };
}

const nothing: Wanted = { entities: [], kept: new Set(), waits: [] };

/** A copy that a user took over is none. */
function ourCopy(service: Service | undefined): Service | undefined {
  const isOurs =
    service !== undefined &&
    isCopy(service) &&
    !hasSelector(service) &&
    service.metadata.deletionTimestamp === undefined;
  return isOurs ? service : undefined;
}

function wantedFor(term: EntityTerm, ref: FederatedRef, key: string, copy: Service): Wanted {
  const { member: target, members, clock, namespace } = term.options;
  const monotonicMs = clock.monotonic();
  const all = members.list();
  const place = `${ref.namespace}/${ref.name}`;
  const rules = annotatedCopies(namespace);
  const { inputs, nextMs } = collectInputs({
    rules,
    ref,
    key,
    target,
    members: all,
    monotonicMs,
    names: term.hostNames,
    leftOutOf: term.leftOutOf,
    live: copy,
    liveSlices: () => target.slices.byIndex('service', place).filter(isOwnSlice),
  });
  const tenancy = findTenancy({ rules, ref, target, members: all, live: copy, nowMs: undefined });
  const plan = compilePlan(ref, target.clusterID, inputs, false, tenancy);
  const participants = [...plan.participants.values()];
  const byNodes = participants.filter(({ service }) => service.exposure.by === 'nodes');
  term.nodeClusters.set(key, new Set(byNodes.map(({ service }) => service.clusterID)));
  const kept = new Set(
    all
      .filter(
        ({ isRead, state, settings }) =>
          !isRead && fateOf(state, settings, undefined, monotonicMs).fate !== 'remove',
      )
      .map(({ clusterID }) => clusterID),
  );
  const slices = participants.flatMap((participant) => {
    const member = all.find(({ clusterID }) => clusterID === participant.service.clusterID);
    if (member === undefined || !member.isRead) return [];
    const found = slicesOf(term, key, copy, participant, member);
    if (found === undefined) kept.add(member.clusterID);
    return found ?? [];
  });
  return {
    entities: compileExternalEntities(copy, slices),
    kept,
    waits: [
      nextMs && Math.max(0, nextMs - monotonicMs),
      participants.some(({ service }) => hasHostNames(service)) ? refreshMs : undefined,
      kept.size > 0 ? unreadMs : undefined,
    ],
  };
}

/** Those that the copy has, or would have without a local member. Undefined while a name is looked up. */
function slicesOf(
  { hostNames, leftOutOf }: EntityTerm,
  key: string,
  copy: Service,
  participant: Participant,
  member: SyncedMember,
): readonly EndpointSlice[] | undefined {
  const { service, isLocal } = participant;
  const usable = usableOf(member);
  if (isReachedByPods(service, isLocal)) {
    const leftOut = leftOutOf(member).slices.get(keyOfMember(service));
    return sourceSlices(member, service)
      .filter(({ metadata }) => isLocal || leftOut?.has(metadata.name) !== true)
      .flatMap((source) => compilePodSlices(copy, participant, source, usable).slices);
  }
  const { addresses, isPending } = outsideAddresses(service, member, hostNames, key);
  return isPending === true
    ? undefined
    : compileAddressSlices(copy, participant, addresses, usable).slices;
}

async function apply(
  term: EntityTerm,
  place: string,
  { entities, kept }: Wanted,
  context: ReconcileContext,
  run: Pick<PacedRun, 'write' | 'deletes'>,
): Promise<void> {
  const names = new Set(entities.map(keyOf));
  const changed = entities.filter((entity) => {
    const live = term.entities.live(keyOf(entity));
    if (live === undefined) return true;
    if (isOwnEntity(live)) return !isSameEntity(entity, live);
    context.log.warn('a user has an ExternalEntity with the name of one of a site', {
      entity: keyOf(entity),
    });
    return false;
  });
  const left = term.options.member.externalEntities.byIndex('copy', place).flatMap((cached) => {
    const live = term.entities.live(keyOf(cached));
    const isLeft =
      live !== undefined &&
      isOwnEntity(live) &&
      live.metadata.deletionTimestamp === undefined &&
      !names.has(keyOf(live)) &&
      !kept.has(originOf(live));
    return isLeft ? [live] : [];
  });
  const origins = [...new Set(changed.map(originOf))];
  let mustWait: Paced | undefined;
  try {
    // New ones first: a moment with an address in two is better than one without it.
    for (const [at, entity] of changed.entries()) {
      run.write(at === 0 ? origins : [originOf(entity)]);
      term.writes(place);
      await write(term, entity, context);
    }
  } catch (error) {
    if (!(error instanceof Paced)) throw error;
    mustWait = error;
  }
  for (const live of left) {
    run.deletes(originOf(live));
    term.writes(place);
    await remove(term, live, context);
  }
  if (mustWait !== undefined) throw mustWait;
}

async function write(
  { options, entities }: EntityTerm,
  wanted: ExternalEntity,
  context: ReconcileContext,
): Promise<void> {
  context.signal.throwIfAborted();
  const key = keyOf(wanted);
  const live = entities.live(key);
  const writer = writerOf(options.member.client, context);
  const { namespace = '' } = wanted.metadata;
  try {
    const written =
      live === undefined
        ? await writer.create(pathOfEntities(namespace), wanted)
        : await writer.replace(pathOfEntity(wanted.metadata), wanted, live);
    entities.wrote(key, written, live);
  } catch (error) {
    entities.forget(key);
    throw asConflict(error);
  }
}

async function remove(
  { options, entities }: EntityTerm,
  live: ExternalEntity,
  context: ReconcileContext,
): Promise<void> {
  context.signal.throwIfAborted();
  const key = keyOf(live);
  entities.deletes(key, live);
  try {
    await writerOf(options.member.client, context).remove(pathOfEntity(live.metadata), live);
  } catch (error) {
    entities.forget(key);
    throw asConflict(error);
  }
}

/** The cluster of its endpoints. */
const originOf = ({ metadata }: ExternalEntity): string => metadata.labels?.[originKey] ?? '';

const keyOf = ({ metadata }: ExternalEntity): string =>
  `${metadata.namespace ?? ''}/${metadata.name}`;
