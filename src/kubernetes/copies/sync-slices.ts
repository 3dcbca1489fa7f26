// Brings the slices of a copy that come from one source up to date. A change of one endpoint costs only
// the slices of its source.

import { kubePath } from '../../core/kube/kube-path.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { FencedWriter } from '../fencing/fenced-writer.ts';
import { serviceNameLabel } from '../names.ts';
import type { EndpointSlice } from '../objects.ts';
import {
  compileAddressSlices,
  compileHeldSlice,
  compilePodSlices,
  isSameSlice,
} from '../services/compile-slices.ts';
import { refOfKey } from '../services/federated-name.ts';
import { keyOfMember } from '../services/member-service.ts';
import { isOwnSlice, isSource, parseSourceID, sourceOfSlice } from '../services/slice-source.ts';
import { hasHostNames, isReachedByPods, outsideAddresses } from './collect-inputs.ts';
import { refreshMs } from './host-names.ts';
import { keyOf, type SlicePlace } from './live-slices.ts';
import { slicesKey } from './sync-keys.ts';
import { asConflict, type FederatedState, type SyncTerm } from './sync-term.ts';
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
): Promise<ReconcileResult | undefined> {
  const state = term.states.get(federated);
  if (state === undefined) {
    // A slice that was created while the copy went. The run of the federated Service adds this key again.
    if (hasSlices(term, federated, source)) term.sink.add(federated);
    return undefined;
  }
  if (state.isFrozen) return undefined;
  const { round } = state.done;
  const { namespace, name } = state.plan.ref;
  const place = { copy: `${namespace}/${name}`, source };
  const { slices, hasNames } = wantedSlices(term, state, federated, place);
  const names = new Set(slices.map(keyOf));
  // New ones first: a moment with an endpoint in two slices is better than one without it.
  for (const slice of slices) await write(term, slice, context);
  for (const live of term.slices.slicesOf(place)) {
    if (!names.has(keyOf(live))) await remove(term, federated, live, context);
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
    if (holder === undefined) return nothing;
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
    const found = member.slices.byKey(`${source.namespace}/${source.slice}`);
    if (found === undefined || !isSource(found)) return nothing;
    if (found.metadata.labels?.[serviceNameLabel] !== source.name) return nothing;
    const { slices } = compilePodSlices(copy, participant, found, usable);
    return { slices, hasNames: false };
  }
  const key = slicesKey(federated, place.source);
  const { addresses } = outsideAddresses(service, member, term.names, key);
  const { slices } = compileAddressSlices(copy, participant, addresses, usable);
  return { slices, hasNames: hasHostNames(service) };
}

async function write(
  term: SyncTerm,
  wanted: EndpointSlice,
  { epoch = 0, signal, log }: ReconcileContext,
): Promise<void> {
  const key = keyOf(wanted);
  const live = term.slices.get(key);
  if (live !== undefined && !isOwnSlice(live)) {
    log.warn('a user has an EndpointSlice with the name of one of a copy', { slice: key });
    return;
  }
  if (live !== undefined && isSameSlice(wanted, live)) return;
  signal.throwIfAborted();
  const { namespace = '', name } = wanted.metadata;
  const writer = new FencedWriter(term.options.member.client, epoch);
  try {
    const written =
      live === undefined
        ? await writer.create(collectionOf(namespace), wanted)
        : await writer.replace(pathOf(namespace, name), wanted, live);
    term.slices.wrote(key, written, live);
  } catch (error) {
    term.slices.forget(key);
    throw asConflict(error);
  }
}

async function remove(
  term: SyncTerm,
  federated: string,
  live: EndpointSlice,
  { epoch = 0, signal }: ReconcileContext,
): Promise<void> {
  signal.throwIfAborted();
  const key = keyOf(live);
  const { namespace = '', name } = live.metadata;
  const writer = new FencedWriter(term.options.member.client, epoch);
  term.slices.deletes(key, live);
  try {
    await writer.remove(pathOf(namespace, name), live);
  } catch (error) {
    term.slices.forget(key);
    // Events of it counted as echoes meanwhile. It may have another source now, whose key must remove it.
    const now = term.slices.get(key);
    const source = now === undefined ? undefined : sourceOfSlice(now);
    if (source !== undefined && source !== sourceOfSlice(live)) {
      term.sink.add(slicesKey(federated, source));
    }
    throw asConflict(error);
  }
}

function collectionOf(namespace: string): string {
  return kubePath`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
}

function pathOf(namespace: string, name: string): string {
  return kubePath`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices/${name}`;
}
