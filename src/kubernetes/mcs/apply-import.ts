// Brings one ServiceImport of a site in the target up to date. The cache holds only a part of it, so it is read again
// before it is changed. Every write is fenced.

import { jsonEquals } from '../../api/schema/json.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { ReconcileContext } from '../../core/reconcile/controller.ts';
import { asConflict, type SyncTerm } from '../copies/sync-term.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import type { Plan } from '../services/compile-plan.ts';
import { clustersOf, isSameImport, repairedImport } from './compile-import.ts';
import { isOwnImport } from './import-marks.ts';
import { importCollection, importPath, type ServiceImport } from './mcs-objects.ts';
import type { McsTerm } from './mcs-term.ts';

export interface ImportWrites {
  readonly term: SyncTerm;
  readonly mcs: McsTerm;
  readonly context: ReconcileContext;
  readonly pace: () => void;
}

const keyOf = ({ metadata }: ServiceImport): string =>
  `${metadata.namespace ?? ''}/${metadata.name}`;

/** Returns it as it is in the target now. */
export async function applyImport(
  writes: ImportWrites,
  wanted: ServiceImport,
): Promise<ServiceImport> {
  const { term, mcs, context, pace } = writes;
  const key = keyOf(wanted);
  const live = mcs.imports.live(key);
  if (live !== undefined && isSameImport(wanted, live)) return live;
  pace();
  context.signal.throwIfAborted();
  const writer = writerOf(term.client, context);
  try {
    if (live === undefined) {
      const collection = importCollection(wanted.metadata.namespace ?? '');
      const created = await writer.create(collection, wanted);
      mcs.imports.wrote(key, created, undefined);
      return created;
    }
    const fresh = await readOwn(writes, wanted);
    if (isSameImport(wanted, fresh)) return fresh;
    const path = importPath(wanted.metadata);
    const written = await writer.replace(path, repairedImport(wanted, fresh), fresh);
    mcs.imports.wrote(key, written, fresh);
    return written;
  } catch (error) {
    mcs.imports.forget(key);
    throw asConflict(error);
  }
}

/** Tells in its status which clusters export the Service. */
export async function applyClusters(
  writes: ImportWrites,
  live: ServiceImport,
  plan: Plan,
): Promise<void> {
  const { term, mcs, context, pace } = writes;
  const clusters = clustersOf(plan);
  const isTold = ({ status }: ServiceImport): boolean =>
    jsonEquals(
      (status?.clusters ?? []).map(({ cluster }) => cluster).toSorted(),
      clusters.map(({ cluster }) => cluster),
    );
  if (isTold(live)) return;
  pace();
  context.signal.throwIfAborted();
  const key = keyOf(live);
  try {
    const fresh = await readOwn(writes, live);
    if (isTold(fresh)) return;
    const changed = { ...fresh, status: { ...fresh.status, clusters } };
    const path = importPath(live.metadata);
    const written = await writerOf(term.client, context).replaceStatus(path, changed);
    mcs.imports.wrote(key, written, fresh);
  } catch (error) {
    mcs.imports.forget(key);
    throw asConflict(error);
  }
}

/** Deletions do not wait. */
export async function removeImport(writes: ImportWrites, live: ServiceImport): Promise<void> {
  const { term, mcs, context } = writes;
  context.signal.throwIfAborted();
  const key = keyOf(live);
  try {
    // The mark before the deletion must leave all else as it is.
    const fresh = await readOwn(writes, live);
    mcs.imports.deletes(key, fresh);
    await writerOf(term.client, context).remove(importPath(live.metadata), fresh);
  } catch (error) {
    mcs.imports.forget(key);
    throw asConflict(error);
  }
}

async function readOwn({ term }: ImportWrites, known: ServiceImport): Promise<ServiceImport> {
  const path = importPath(known.metadata);
  const fresh = await term.client.get<ServiceImport>(path);
  if (isOwnImport(fresh)) return fresh;
  throw new HansaError('HANSA_CONFLICT', `Cannot write ${path}: a user replaced it meanwhile.`);
}
