// The verbs of the Kubernetes API on top of requests: JSON in, checked JSON out, and an error for
// every status but 2xx.

import { HansaError, hasCode } from '../errors/error.ts';
import type { Clock } from '../clock/clock.ts';
import { JsonExcessError, jsonExcess, parseBoundedJson } from '../json/strict-json.ts';
import type { WorkTime } from '../limits/turns.ts';
import { timeOf } from './cluster-time.ts';
import type {
  CollectionPath,
  KubeClient,
  KubeObject,
  KubePreconditions,
  KubeRequest,
  KubeResponse,
  KubeStream,
  KubeWriteOptions,
} from './kube-client.ts';
import { KubeStatusError, unreachable } from './kube-errors.ts';
import { isKubeObject } from './kube-objects.ts';
import { type ListHead, maxObjectValues, readListPage } from './list-page.ts';

const defaultManager = 'hansa';
/** Objects in one page, as in client-go. */
const pageSize = 500;
/** Largest page: an object has at most about 1.5 MiB, most have a few KiB. */
const maxPageBytes = 16 * 1024 * 1024;
/** A list for code that holds all items in memory. Fifty clusters can have 50,000 copies in one that leaves them. */
const maxItems = 100_000;
/** An endless list ends here, even if each page is empty. */
const maxPages = 250;
/** Fields and items of a page. */
const maxPageValues = 500_000;
const expired = 410;

type Query = NonNullable<KubeRequest['query']>;

/** Subclasses send the requests. */
export abstract class KubeVerbs implements KubeClient {
  /** Host and port of the server, for messages. */
  readonly where: string;

  readonly #time: WorkTime | undefined;

  /** Without a clock, pages are not read in turns. */
  constructor(where: string, clock?: Clock) {
    this.where = where;
    this.#time = clock && timeOf(this, clock);
  }

  abstract request(request: KubeRequest): Promise<KubeResponse>;
  abstract stream(request: KubeRequest): Promise<KubeStream>;
  abstract close(): void;

  get<T extends KubeObject>(path: string): Promise<T> {
    return this.#object<T>({ method: 'GET', path });
  }

  create<T extends KubeObject>(
    path: CollectionPath,
    object: unknown,
    { beforeSend, fieldManager = defaultManager }: KubeWriteOptions = {},
  ): Promise<T> {
    const query = { fieldManager };
    return this.#object<T>({
      method: 'POST',
      path,
      body: object,
      query,
      ...(beforeSend && { beforeSend }),
    });
  }

  replace<T extends KubeObject>(
    path: string,
    object: unknown,
    { beforeSend, fieldManager = defaultManager }: KubeWriteOptions = {},
  ): Promise<T> {
    const query = { fieldManager };
    return this.#object<T>({
      method: 'PUT',
      path,
      body: object,
      query,
      ...(beforeSend && { beforeSend }),
    });
  }

  patch<T extends KubeObject>(path: string, patch: unknown): Promise<T> {
    const contentType = 'application/merge-patch+json';
    return this.#object<T>({
      method: 'PATCH',
      path,
      body: patch,
      contentType,
      query: { fieldManager: defaultManager },
    });
  }

  apply<T extends KubeObject>(
    path: string,
    object: KubeObject,
    { force = false, dryRun = false }: { force?: boolean; dryRun?: boolean } = {},
  ): Promise<T> {
    return this.#object<T>({
      method: 'PATCH',
      path,
      body: object,
      // YAML includes JSON.
      contentType: 'application/apply-patch+yaml',
      query: {
        fieldManager: defaultManager,
        force: String(force),
        ...(dryRun && { dryRun: 'All' }),
      },
    });
  }

  async delete(
    path: string,
    preconditions?: KubePreconditions,
    { beforeSend }: Pick<KubeWriteOptions, 'beforeSend'> = {},
  ): Promise<void> {
    const body =
      preconditions === undefined
        ? undefined
        : { apiVersion: 'v1', kind: 'DeleteOptions', preconditions };
    const request = { method: 'DELETE', path, body, ...(beforeSend && { beforeSend }) } as const;
    const response = await this.request(request);
    if (!isSuccess(response) && response.status !== 404) throw this.#failure(request, response);
  }

  async list<T extends KubeObject>(path: CollectionPath, query: Query = {}): Promise<readonly T[]> {
    try {
      return await this.#pages<T>(path, query);
    } catch (error) {
      // The server forgot the first page meanwhile. A second time, it is too slow to be listed.
      if (!(error instanceof KubeStatusError) || error.status !== expired) throw error;
      return this.#pages<T>(path, query);
    }
  }

  async #pages<T extends KubeObject>(path: string, query: Query): Promise<readonly T[]> {
    const items: T[] = [];
    let position: Query = {};
    let limit = pageSize;
    for (let page = 0; page < maxPages && items.length <= maxItems; page++) {
      const request = {
        method: 'GET',
        path,
        query: { limit: String(limit), ...query, ...position },
        maxBytes: maxPageBytes,
      } as const;
      const found: T[] = [];
      let list: ListHead;
      try {
        list = await this.#page(request, (item) => found.push(item as T));
      } catch (error) {
        // A policy may have 512 KiB, and 500 of them are no page.
        if (limit === 1 || !isTooLarge(error)) throw error;
        limit = Math.ceil(limit / 4);
        continue;
      }
      // One by one: a page has more items than a call takes arguments.
      for (const item of found) items.push(item);
      if (list.next === '') {
        if (items.length <= maxItems) return items;
        break;
      }
      position = { continue: list.next };
    }
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Cannot list ${path} of the API server ${this.where}: it has more than ${maxItems} objects or ${maxPages} pages.`,
    );
  }

  async #object<T extends KubeObject>(request: KubeRequest): Promise<T> {
    const value = await this.#json(request);
    if (!isKubeObject(value)) throw this.#unexpected(request, 'an object');
    return value as T;
  }

  async #json(request: KubeRequest): Promise<unknown> {
    const response = await this.request(request);
    if (!isSuccess(response)) throw this.#failure(request, response);
    try {
      return parseBoundedJson(response.body, maxObjectValues);
    } catch {
      if (jsonExcess(response.body, maxObjectValues) === 'values') {
        throw this.#tooLarge(request, `more than ${maxObjectValues} fields and items`);
      }
      // The error of JSON.parse quotes the body, which may be a secret.
      throw this.#unexpected(request, 'JSON');
    }
  }

  async #page(request: KubeRequest, each: (item: unknown) => void): Promise<ListHead> {
    const response = await this.request(request);
    if (!isSuccess(response)) throw this.#failure(request, response);
    const limits = { maxValues: maxPageValues, signal: request.signal };
    let list: ListHead | undefined;
    try {
      list = await readListPage(response.body, this.#time, limits, each);
    } catch (error) {
      if (error instanceof JsonExcessError) throw this.#tooLarge(request, error.message);
      if (error instanceof SyntaxError) throw this.#unexpected(request, 'JSON');
      throw error;
    }
    if (list === undefined) throw this.#unexpected(request, 'a list');
    return list;
  }

  #tooLarge({ method, path }: KubeRequest, what: string): HansaError {
    return new HansaError(
      'HANSA_TOO_LARGE',
      `The response of the API server ${this.where} to ${method} ${path} has ${what}.`,
    );
  }

  #failure({ method, path }: KubeRequest, response: KubeResponse): KubeStatusError {
    return new KubeStatusError(this.where, `${method} ${path}`, response);
  }

  #unexpected({ method, path }: KubeRequest, wanted: string): HansaError {
    const why = `its response to ${method} ${path} is not ${wanted} of Kubernetes`;
    return unreachable(this.where, 'protocol', why);
  }
}

const isTooLarge = (error: unknown): boolean => hasCode(error, 'HANSA_TOO_LARGE');

function isSuccess({ status }: KubeResponse): boolean {
  return status >= 200 && status < 300;
}
