// The shapes of objects and lists in responses of an API server.

import { isRecord } from '../json/is-record.ts';

/** A TokenReview and the like have no name. */
export function isKubeObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    isRecord(value) &&
    typeof value['apiVersion'] === 'string' &&
    typeof value['kind'] === 'string' &&
    isRecord(value['metadata'])
  );
}

export interface ListPage {
  /** Each is an object (`isKubeObject`), with the apiVersion and kind that lists leave out. */
  readonly items: readonly unknown[];
  /** Empty on the last page. */
  readonly next: string;
  /** As the server sent it. */
  readonly resourceVersion: unknown;
}

/** Undefined for everything but a list. */
export function listPageOf(value: unknown): ListPage | undefined {
  if (!isKubeObject(value) || !isRecord(value['metadata'])) return undefined;
  const { apiVersion, kind, items } = value;
  const { resourceVersion } = value['metadata'];
  const next = value['metadata']['continue'] ?? '';
  if (typeof next !== 'string' || typeof kind !== 'string' || !kind.endsWith('List')) {
    return undefined;
  }
  // Go writes null for an empty list.
  const found = items ?? [];
  if (!Array.isArray(found)) return undefined;
  const itemKind = kind.slice(0, -'List'.length);
  const whole = found.map((item: unknown) =>
    isRecord(item) ? { apiVersion, kind: itemKind, ...item } : undefined,
  );
  return whole.every((item) => isKubeObject(item))
    ? { items: whole, next, resourceVersion }
    : undefined;
}
