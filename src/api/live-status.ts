// Status fields that change often without a change of state, such as the time of the last refresh.
// The store keeps them apart from the object, as facts, and reads add them to the object. So they
// cost no commit, trigger no watch and do not change the resourceVersion. Pure.

import type { Kind } from './kind.ts';

interface Readable {
  readonly metadata: { readonly uid?: string };
  readonly status?: unknown;
}

/**
 * The object with its facts in place; the very same one where there are none. Facts carry the uid of
 * the object that they are about; a null says that the field is absent.
 */
export function withLiveStatus<T extends Readable>(
  kind: Pick<Kind, 'liveStatus'>,
  object: T,
  facts: Readonly<Record<string, unknown>> | undefined,
): T {
  if (kind.liveStatus === undefined || facts === undefined) return object;
  if (facts['uid'] !== object.metadata.uid) return object;
  const status: Record<string, unknown> = { ...(object.status as object | undefined) };
  for (const field of kind.liveStatus) {
    const value = facts[field];
    if (value === undefined) continue;
    if (value === null) delete status[field];
    else status[field] = value;
  }
  return { ...object, status };
}
