// Reads a page of a list object by object, in turns, so that no page blocks the main thread, whatever a cluster sends.
// Each object is bounded before it is parsed.

import { isRecord } from '../json/is-record.ts';
import { JsonList, type JsonSpan } from '../json/json-list.ts';
import { JsonExcessError } from '../json/strict-json.ts';
import { oneSlice, type WorkTime } from '../limits/turns.ts';
import { isKubeObject } from './kube-objects.ts';

/** Of one object. etcd holds 1.5 MiB by default; as JSON it is larger. */
export const maxObjectBytes = 4 * 1024 * 1024;
/** Fields and items of one object, which are parsed in about 10 ms. An EndpointSlice of 1,000 endpoints has 20,000. */
export const maxObjectValues = 100_000;
/** Lists of Kubernetes have their version and the place of the next page around the items. */
const maxRestBytes = 64 * 1024;
/** A page from the cache of an API server can be the whole collection. */
const maxItems = 200_000;

const limits = {
  maxItemBytes: maxObjectBytes,
  maxItemValues: maxObjectValues,
  maxItems,
  maxRestBytes,
};

export interface PageLimits {
  /** Fields and items of the whole page. */
  readonly maxValues: number;
  readonly signal?: AbortSignal | undefined;
}

export interface ListHead {
  /** Empty on the last page. */
  readonly next: string;
  /** As the server sent it. */
  readonly resourceVersion: unknown;
}

/**
 * Calls `each` with each object, which has the apiVersion and kind that lists leave out, and resolves to the rest.
 * Undefined for everything but a list. Rejects with a SyntaxError: a JsonItemError where an object is too large, and
 * another JsonExcessError where only the page is. `each` may throw.
 */
export async function readListPage(
  body: Buffer,
  time: WorkTime | undefined,
  { maxValues, signal }: PageLimits,
  each: (item: unknown) => void,
): Promise<ListHead | undefined> {
  const slice = time?.begin() ?? oneSlice;
  try {
    const list = new JsonList(body, 'items', limits);
    const spans: JsonSpan[] = [];
    let values = 0;
    for (let span = list.next(); span !== undefined; span = list.next()) {
      spans.push(span);
      values += span.values;
      if (values > maxValues) throw new JsonExcessError(`more than ${maxValues} fields and items`);
      if (slice.isOver()) await slice.next(signal);
    }
    const head = headOf(list.rest());
    if (head === undefined) return undefined;
    const { apiVersion, itemKind, ...rest } = head;
    for (const span of spans) {
      if (slice.isOver()) await slice.next(signal);
      const item = list.parse(span);
      if (!isRecord(item)) return undefined;
      const whole = { apiVersion, kind: itemKind, ...item };
      if (!isKubeObject(whole)) return undefined;
      each(whole);
    }
    return rest;
  } finally {
    await slice.end(signal);
  }
}

/** Undefined where it is no list, or has the items twice. */
function headOf(
  value: unknown,
): (ListHead & { readonly apiVersion: unknown; readonly itemKind: string }) | undefined {
  if (!isKubeObject(value) || !isRecord(value['metadata'])) return undefined;
  const { apiVersion, kind, items } = value;
  const { resourceVersion } = value['metadata'];
  const next = value['metadata']['continue'] ?? '';
  if (typeof next !== 'string' || typeof kind !== 'string' || !kind.endsWith('List')) {
    return undefined;
  }
  // Go writes null for an empty list.
  const left = items ?? [];
  if (!Array.isArray(left) || left.length > 0) return undefined;
  return { apiVersion, itemKind: kind.slice(0, -'List'.length), next, resourceVersion };
}
