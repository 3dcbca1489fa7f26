// Brings the slices of a copy that come from one source up to date. A change of one endpoint costs only
// the slices of its source.

import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { serviceNameLabel } from '../names.ts';
import type { EndpointSlice } from '../objects.ts';
import {
  compileAddressSlices,
  compileHeldSlice,
  compilePodSlices,
} from '../services/compile-slices.ts';
import { refOfKey } from '../services/federated-name.ts';
import { mayJoin } from '../services/global-namespaces.ts';
import { keyOfMember } from '../services/member-service.ts';
import { isSource, parseSourceID, sourceOfSlice } from '../services/slice-source.ts';
import { removeSlice, writeSlice } from './apply-slice.ts';
import { hasHostNames, isReachedByPods, outsideAddresses } from './collect-inputs.ts';
import { refreshMs } from './host-names.ts';
import type { PacedRun } from './origin-pacer.ts';
import { keyOf, type SlicePlace } from './live-slices.ts';
import { slicesKey } from './sync-keys.ts';
import type { FederatedState, SyncTerm } from './sync-term.ts';
import { usableOf } from './synced-member.ts';

interface Wanted {
  readonly slices: readonly EndpointSlice[];
  /** Whether it must be looked at again because names may get other addresses. */
  readonly hasNames: boolean;
}

const nothing: Wanted = { slices: [], hasNames: false };

export async function syncSlices(
  term: SyncTerm,
  federated: string,
  source: string,
  context: ReconcileContext,
  run: PacedRun,
): Promise<ReconcileResult | undefined> {
  const state = term.states.get(federated);
  if (state === undefined) {
    // A slice that was created while the copy went. The run of the federated Service adds this key again.
    if (hasSlices(term, federated, source)) term.sink.add(federated);
    return undefined;
  }
  if (state.isFrozen) return undefined;
  const parsed = parseSourceID(source);
  // Endpoints of a cluster that may no longer have any must not wait for its changes.
  if (run.isParked && parsed !== undefined && state.plan.participants.has(parsed.member)) {
    run.stay();
    return undefined;
  }
  const origin = parsed?.clusterID ?? term.options.member.clusterID;
  const writes = { client: term.client, slices: term.slices, pace: () => run.write([origin]) };
  const { round } = state.done;
  const { namespace, name } = state.plan.ref;
  const place = { copy: `${namespace}/${name}`, source };
  const { slices, hasNames } = wantedSlices(term, state, federated, place);
  const names = new Set(slices.map(keyOf));
  // New ones first: a moment with an endpoint in two slices is better than one without it.
  for (const slice of slices) await writeSlice(writes, slice, context);
  for (const live of term.slices.slicesOf(place)) {
    if (names.has(keyOf(live))) continue;
    run.deletes(origin);
    await remove(term, federated, live, context);
  }
  if (term.states.get(federated) !== state) term.sink.add(slicesKey(federated, source));
  else if (slices.length > 0) state.done.add(source, round);
  return hasNames ? { requeueAfterMs: refreshMs } : undefined;
}

function hasSlices({ options, slices }: SyncTerm, federated: string, source: string): boolean {
  const ref = refOfKey(federated, options.namespace);
  return (
    ref !== undefined &&
    slices.slicesOf({ copy: `${ref.namespace}/${ref.name}`, source }).length > 0
  );
}

function wantedSlices(
  term: SyncTerm,
  { plan, copy, held }: FederatedState,
  federated: string,
  place: SlicePlace,
): Wanted {
  const source = parseSourceID(place.source);
  const member = source && term.options.members.get(source.clusterID);
  if (copy === undefined || source === undefined || member === undefined) return nothing;
  const usable = usableOf(member);
  const input = held.get(source.clusterID);
  if (input !== undefined) {
    const holder = plan.participants.get(keyOfMember(input.service));
    const isAllowed = mayJoin(member.settings, plan.ref, source.namespace);
    if (holder === undefined || !isAllowed) return nothing;
    const slices = term.slices
      .slicesOf(place)
      .map((live) => compileHeldSlice(live, holder.isDraining, usable));
    return { slices, hasNames: false };
  }
  const participant = plan.participants.get(source.member);
  if (participant === undefined || !member.isRead) return nothing;
  const { service, isLocal } = participant;
  const byPods = isReachedByPods(service, isLocal);
  if (byPods !== (source.slice !== undefined)) return nothing;
  if (source.slice !== undefined) {
    const leftOut = term.leftOutOf(source.clusterID).slices.get(source.member);
    if (!isLocal && leftOut?.has(source.slice) === true) return nothing;
    const found = member.slices.byKey(`${source.namespace}/${source.slice}`);
    if (found === undefined || !isSource(found)) return nothing;
    if (found.metadata.labels?.[serviceNameLabel] !== source.name) return nothing;
    const { slices } = compilePodSlices(copy, participant, found, usable);
    return { slices: slices.map((each) => term.rules.marked(each, copy)), hasNames: false };
  }
  const key = slicesKey(federated, place.source);
  const { addresses, isPending } = outsideAddresses(service, member, term.names, key);
  // At the begin of a term no name has an answer yet. Until then, what the last leader found counts.
  const found = isPending === true ? addressesIn(term.slices.slicesOf(place)) : [];
  const { slices } = compileAddressSlices(copy, participant, [...addresses, ...found], usable);
  return {
    slices: slices.map((each) => term.rules.marked(each, copy)),
    hasNames: hasHostNames(service),
  };
}

function addressesIn(slices: readonly EndpointSlice[]): readonly string[] {
  return slices.flatMap(({ endpoints }) => (endpoints ?? []).flatMap((each) => each.addresses));
}

/** Events of the slice count as echoes meanwhile. If it stays, it may have another source now, whose key must remove it. */
async function remove(
  term: SyncTerm,
  federated: string,
  live: EndpointSlice,
  context: ReconcileContext,
): Promise<void> {
  try {
    await removeSlice(term, live, context);
  } catch (error) {
    const now = term.slices.get(keyOf(live));
    const source = now === undefined ? undefined : sourceOfSlice(now);
    if (source !== undefined && source !== sourceOfSlice(live)) {
      term.sink.add(slicesKey(federated, source));
    }
    throw error;
  }
}
