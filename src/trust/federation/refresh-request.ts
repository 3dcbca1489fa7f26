// A request of an operator to the federation controller: fetch now, accept a lower sequence, or start
// again from the bootstrap. It is a record in the store, because the lease holder may be another
// replica. The controller deletes it when it is done.

import { hasCode } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';

export const refreshCollection = 'trust.refresh';

export interface RefreshRequest {
  readonly requestedAt: string;
  readonly by: string;
  readonly acceptRollback: boolean;
  /** Discard the held bundle, and start from the bootstrap of the spec. */
  readonly rebootstrap: boolean;
}

const requests = recordReader<RefreshRequest>(refreshCollection);

export interface PendingRefresh {
  readonly entry: Entry;
  readonly request: RefreshRequest;
}

export function pendingRefresh(
  store: Pick<Store, 'get'>,
  name: string,
): PendingRefresh | undefined {
  const entry = store.get(refreshCollection, name);
  return entry && { entry, request: requests.of(entry) };
}

/** Keeps a newer request that arrived in the meantime. */
export async function refreshDone(
  store: Pick<Store, 'commit'>,
  { entry }: PendingRefresh,
  fence: { readonly lease: string; readonly epoch: number } | undefined,
): Promise<void> {
  const { collection, name, revision } = entry;
  try {
    await commitFenced(store, {
      expect: [{ collection, name, at: revision }],
      delete: [{ collection, name }],
      ...(fence === undefined ? {} : { fence }),
    });
  } catch (error) {
    if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
  }
}
