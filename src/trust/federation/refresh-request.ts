// What an operator asks of the sync of one federation: to look now, whatever the time; to accept that
// its sequence went back; to begin anew with another bootstrap. A request is a record of its own,
// because whoever holds the lease acts on it, in whichever process; it goes when it was acted on.

import { hasCode } from '../../core/errors/error.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';

export const refreshCollection = 'trust.refresh';

export interface RefreshRequest {
  readonly requestedAt: string;
  readonly by: string;
  readonly acceptRollback: boolean;
  /** Forget what is held, and begin with the bootstrap of the spec. */
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

/** One that came meanwhile stays. */
export async function refreshDone(
  store: Pick<Store, 'commit'>,
  { entry }: PendingRefresh,
  fence: { readonly lease: string; readonly epoch: number } | undefined,
): Promise<void> {
  const { collection, name, revision } = entry;
  try {
    await store.commit({
      expect: [{ collection, name, at: revision }],
      delete: [{ collection, name }],
      ...(fence === undefined ? {} : { fence }),
    });
  } catch (error) {
    if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
  }
}
