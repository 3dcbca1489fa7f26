// Writes and deletes single EndpointSlices of a site in the target. Every write is fenced.

import { kubePath } from '../../core/kube/kube-path.ts';
import type { ReconcileContext } from '../../core/reconcile/controller.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import type { EndpointSlice } from '../objects.ts';
import { isSameSlice } from '../services/compile-slices.ts';
import { keyOf, type LiveSlices } from './live-slices.ts';
import { asConflict } from './sync-term.ts';
import type { SyncedMember } from './synced-member.ts';

export interface SliceWrites {
  readonly client: SyncedMember['client'];
  readonly slices: LiveSlices;
  /** Called before each write, but not before deletions. May throw. */
  readonly pace?: () => void;
}

export async function writeSlice(
  { client, slices, pace }: SliceWrites,
  wanted: EndpointSlice,
  context: ReconcileContext,
): Promise<void> {
  const key = keyOf(wanted);
  const live = slices.get(key);
  if (live !== undefined && !slices.isOwn(live)) {
    context.log.warn('a user has an EndpointSlice with the name of one of a site', { slice: key });
    return;
  }
  if (live !== undefined && isSameSlice(wanted, live)) return;
  pace?.();
  context.signal.throwIfAborted();
  const { namespace = '', name } = wanted.metadata;
  const writer = writerOf(client, context);
  try {
    const written =
      live === undefined
        ? await writer.create(collectionOf(namespace), wanted)
        : await writer.replace(pathOf(namespace, name), wanted, live);
    slices.wrote(key, written, live);
  } catch (error) {
    slices.forget(key);
    throw asConflict(error);
  }
}

export async function removeSlice(
  { client, slices }: SliceWrites,
  live: EndpointSlice,
  context: ReconcileContext,
): Promise<void> {
  context.signal.throwIfAborted();
  const key = keyOf(live);
  const { namespace = '', name } = live.metadata;
  slices.deletes(key, live);
  try {
    await writerOf(client, context).remove(pathOf(namespace, name), live);
  } catch (error) {
    slices.forget(key);
    throw asConflict(error);
  }
}

function collectionOf(namespace: string): string {
  return kubePath`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
}

function pathOf(namespace: string, name: string): string {
  return kubePath`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices/${name}`;
}
