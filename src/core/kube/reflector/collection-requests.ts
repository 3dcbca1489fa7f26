// The requests of a reflector about one collection: pages of a list, the check of a version, and
// watches.

import { JsonItemError } from '../../json/json-list.ts';
import { JsonExcessError } from '../../json/strict-json.ts';
import type { WorkTime } from '../../limits/turns.ts';
import type { KubeClient, KubeObject, KubeRequest, KubeStream } from '../kube-client.ts';
import { KubeStatusError } from '../kube-errors.ts';
import { type ListHead, maxObjectBytes, maxObjectValues, readListPage } from '../list-page.ts';
import type { CacheLimits, CacheUsage } from './cache-budget.ts';
import type { CacheEntry } from './object-cache.ts';
import { costOf, differenceOf, noCost, sumOf } from './object-cost.ts';
import { ReflectorError } from './reflector-failure.ts';
import type { Step } from './reflector-plan.ts';
import { isResourceVersion } from './resource-version.ts';
import { MalformedError, versionedObject } from './watch-event.ts';

/** Defaults of what is kept: 100,000 objects, 256 MiB, and 4,000,000 fields and items. */
export interface ReflectorLimits extends CacheLimits {
  /** Of one page, before `transform`. It has at most 2,000,000 fields and items too. Default 16 MiB. */
  readonly maxPageBytes: number;
  /** Of one list, or of all initial events, before `transform`. Nothing of it is kept. Default 8 GiB, the most that etcd is meant to hold. */
  readonly maxListBytes: number;
  /** Longest time for one list, or for all initial events. A server forgets its place in a list after minutes. Default 10 min. */
  readonly listMs: number;
  /** Bookmarks come about every minute, if the version of the collection moves. Default 150 s. */
  readonly silenceMs: number;
  /** Longest pause before the initial events are complete. Default 30 s. */
  readonly initialSilenceMs: number;
}

export const defaultLimits: ReflectorLimits = {
  maxObjects: 100_000,
  maxBytes: 256 * 1024 * 1024,
  maxValues: 4_000_000,
  maxPageBytes: 16 * 1024 * 1024,
  maxListBytes: 8 * 1024 * 1024 * 1024,
  listMs: 600_000,
  silenceMs: 150_000,
  initialSilenceMs: 30_000,
};

/** Fields and items of one page. */
const maxPageValues = 2_000_000;
/** A server may need a while for a large page. */
const pageTimeoutMs = 60_000;
/** Until a watch begins. A server waits 3 s for a version that it has not seen. */
const watchTimeoutMs = 30_000;
/** The server ends a watch after a time from here to twice as long, as in client-go. */
const watchSeconds = 300;
/** An endless list of empty pages ends here. */
const maxPages = 20_000;

export interface Collection {
  readonly client: KubeClient;
  /** The name of the cluster, for messages. */
  readonly cluster: string;
  readonly path: string;
  readonly selectors: Readonly<Record<string, string>>;
  readonly limits: ReflectorLimits;
  /** What its answers may take of the main thread. */
  readonly time: WorkTime;
}

export interface WholeList<T> {
  readonly version: string;
  readonly entries: ReadonlyMap<string, CacheEntry<T>>;
}

export interface ListReader<T> {
  /** Gets each object once. */
  readonly transform: (object: T) => T;
  /** Called after each page with what is kept so far. Throws where that is too much. */
  readonly check: (usage: CacheUsage) => void;
}

/** Reads all pages. */
export async function readList<T extends KubeObject>(
  collection: Collection,
  { notOlderThan, pageSize }: Extract<Step, { type: 'list' }>,
  { transform, check }: ListReader<T>,
  signal: AbortSignal,
): Promise<WholeList<T>> {
  const { maxListBytes } = collection.limits;
  const entries = new Map<string, CacheEntry<T>>();
  let position: Record<string, string> = notOlderThanQuery(notOlderThan);
  let kept = noCost;
  let read = 0;
  let version: string | undefined;
  for (let count = 1; ; count++) {
    const query = { limit: String(pageSize), ...position };
    const add = (item: unknown): void => {
      const found = versionedObject<T>(item);
      if (found === undefined) {
        throw new MalformedError('an object of a list has no name or resourceVersion');
      }
      const object = transform(found.object);
      const cost = costOf(object);
      kept = differenceOf(sumOf(kept, cost), entries.get(found.key)?.cost ?? noCost);
      entries.set(found.key, { ...found, object, cost });
    };
    const { page, bytes, version: pageVersion } = await readPage(collection, query, signal, add);
    signal.throwIfAborted();
    // All pages have the same. With the first one, a watch repeats rather than misses changes.
    version ??= pageVersion;
    read += bytes;
    check({ objects: entries.size, ...kept });
    checkRead(maxListBytes, read);
    if (page.next === '') return { version, entries };
    if (count >= maxPages) {
      throw new ReflectorError('over-limit', `the list has more than ${maxPages} pages`);
    }
    position = { continue: page.next };
  }
}

/** The version of the server, which must be `version` or later. A page of one object is cheap. */
export async function readVersion(
  collection: Collection,
  version: string,
  signal: AbortSignal,
): Promise<string> {
  const query = { limit: '1', ...notOlderThanQuery(version) };
  return (await readPage(collection, query, signal, () => undefined)).version;
}

/** `unit` is uniform in [0, 1). */
export async function openWatch(
  collection: Collection,
  step: Extract<Step, { type: 'watch' | 'watch-list' }>,
  unit: number,
  signal: AbortSignal,
): Promise<KubeStream> {
  const { client, path, selectors } = collection;
  const stream = await client.stream({
    method: 'GET',
    path,
    query: {
      ...selectors,
      watch: 'true',
      allowWatchBookmarks: 'true',
      // Random, so that watches that began together do not end together.
      timeoutSeconds: String(Math.floor(watchSeconds * (1 + unit))),
      ...(step.type === 'watch'
        ? { resourceVersion: step.version }
        : {
            sendInitialEvents: 'true',
            resourceVersionMatch: 'NotOlderThan',
            ...(step.notOlderThan !== undefined && { resourceVersion: step.notOlderThan }),
          }),
    },
    timeoutMs: watchTimeoutMs,
    signal,
  });
  if (stream.status === 200) return stream;
  try {
    throw statusError(collection, 'watch', { ...stream, body: await startOf(stream) });
  } finally {
    stream.close();
  }
}

export function statusError(
  { cluster, path }: Collection,
  verb: string,
  response: ConstructorParameters<typeof KubeStatusError>[2],
): KubeStatusError {
  return new KubeStatusError(cluster, `${verb} ${path}`, response);
}

/** What is read is not kept, but an endless list must end. */
export function checkRead(maxListBytes: number, read: number): void {
  if (read <= maxListBytes) return;
  throw new ReflectorError('over-limit', `the list has more than ${maxListBytes} bytes`);
}

async function readPage(
  collection: Collection,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
  each: (item: unknown) => void,
): Promise<{ page: ListHead; bytes: number; version: string }> {
  const { client, path, selectors, limits } = collection;
  const request: KubeRequest = {
    method: 'GET',
    path,
    query: { ...selectors, ...query },
    maxBytes: limits.maxPageBytes,
    timeoutMs: pageTimeoutMs,
    signal,
  };
  const response = await client.request(request);
  if (response.status !== 200) throw statusError(collection, 'list', response);
  const page = await parsed(response.body, collection, signal, each);
  if (!isResourceVersion(page?.resourceVersion)) {
    throw new MalformedError('the response is no list of Kubernetes with a resourceVersion');
  }
  return { page, bytes: response.body.length, version: page.resourceVersion };
}

async function parsed(
  body: Buffer,
  { time }: Collection,
  signal: AbortSignal,
  each: (item: unknown) => void,
): Promise<ListHead | undefined> {
  try {
    return await readListPage(body, time, { maxValues: maxPageValues, signal }, each);
  } catch (error) {
    if (error instanceof JsonItemError) throw tooLargeObject(error.message);
    // Smaller pages have fewer values.
    if (error instanceof JsonExcessError) throw new ReflectorError('too-large', error.message);
    // The error of JSON.parse quotes the text, which may be a secret.
    if (error instanceof SyntaxError) throw new MalformedError('the response is not JSON');
    throw error;
  }
}

/** Smaller pages do not help. */
export function tooLargeObject(what: string): ReflectorError {
  return new ReflectorError('over-limit', `the collection has ${what}`);
}

/** An event has one object, and a few fields around it. */
export const eventLimits = { maxBytes: maxObjectBytes, maxValues: maxObjectValues };

function notOlderThanQuery(version: string | undefined): Record<string, string> {
  return version === undefined
    ? {}
    : { resourceVersion: version, resourceVersionMatch: 'NotOlderThan' };
}

/** Of an answer that is no watch. An error of Kubernetes has a few hundred bytes. */
async function startOf({ body }: KubeStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= 16 * 1024) break;
  }
  return Buffer.concat(chunks).subarray(0, 16 * 1024);
}
