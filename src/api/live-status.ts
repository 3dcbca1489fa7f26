// Fields of a status that change with every look and mean no change of state (when a source was
// asked last, say). They are kept beside the object, as facts, and put into it when it is read: so
// they cost no commit, wake no watcher and leave the resourceVersion alone. Pure.

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
