// Brings one Service of a site in the target up to date. The cache holds only a part of a Service, so it is
// read again before it is changed. Every write is fenced.

import { HansaError } from '../../core/errors/error.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { ReconcileContext } from '../../core/reconcile/controller.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import type { Service } from '../objects.ts';
import type { RecentWrites } from './recent-writes.ts';
import { asConflict } from './sync-term.ts';
import type { SyncedMember } from './synced-member.ts';

export interface ServiceWrites {
  readonly client: SyncedMember['client'];
  readonly services: RecentWrites<Service>;
  /** Called before each write, but not before deletions. May throw. */
  readonly pace?: () => void;
}

/** What one kind of Services of sites looks like. */
export interface OwnedServices {
  /** Whether it is a user's, or a user took it over. Then it is never changed. */
  readonly isTaken: (live: Service) => boolean;
  /** Whether it may be deleted. */
  readonly isDisposable: (live: Service) => boolean;
  /** Whether no update makes it right, so that it must be deleted and created again. */
  readonly isBeyondRepair?: (live: Service, wanted: Service) => boolean;
  readonly isSame: (wanted: Service, live: Service) => boolean;
  /** The live one as it should be. What users added stays. */
  readonly repaired: (wanted: Service, live: Service) => Service;
}

/** Returns the Service as it is in the target now. Without `wanted` it is deleted. */
export async function applyService(
  { client, services, pace }: ServiceWrites,
  rules: OwnedServices,
  wanted: Service | undefined,
  live: Service | undefined,
  context: ReconcileContext,
): Promise<Service | undefined> {
  const { signal } = context;
  const writer = writerOf(client, context);
  const one = wanted ?? live;
  if (one === undefined) return undefined;
  const { namespace = '', name } = one.metadata;
  const key = `${namespace}/${name}`;
  const collection = kubePath`/api/v1/namespaces/${namespace}/services`;
  const path = kubePath`/api/v1/namespaces/${namespace}/services/${name}`;
  if (wanted !== undefined && !(live !== undefined && rules.isSame(wanted, live))) pace?.();
  try {
    if (wanted === undefined) {
      if (live === undefined || !rules.isDisposable(live)) return undefined;
      signal.throwIfAborted();
      // The mark before the deletion must leave all else as it is.
      const fresh = await client.get<Service>(path);
      if (!rules.isDisposable(fresh)) throw changedMeanwhile(path);
      services.deletes(key, fresh);
      await writer.remove(path, fresh);
      return undefined;
    }
    if (live !== undefined && rules.isSame(wanted, live)) return live;
    signal.throwIfAborted();
    if (live === undefined) {
      const created = await writer.create(collection, wanted);
      services.wrote(key, created, undefined);
      return created;
    }
    const fresh = await client.get<Service>(path);
    if (rules.isTaken(fresh)) throw changedMeanwhile(path);
    if (rules.isSame(wanted, fresh)) return fresh;
    if (rules.isBeyondRepair?.(fresh, wanted) === true && rules.isDisposable(fresh)) {
      services.deletes(key, fresh);
      await writer.remove(path, fresh);
      const created = await writer.create(collection, wanted);
      services.wrote(key, created, undefined);
      return created;
    }
    const written = await writer.replace(path, rules.repaired(wanted, fresh), fresh);
    services.wrote(key, written, fresh);
    return written;
  } catch (error) {
    services.forget(key);
    throw asConflict(error);
  }
}

function changedMeanwhile(path: string): HansaError {
  return new HansaError('HANSA_CONFLICT', `Cannot write ${path}: a user changed it meanwhile.`);
}
