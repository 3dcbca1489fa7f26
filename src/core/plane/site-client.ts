// The client of a site that commands use: the resource API with the conventions of Kubernetes, and
// any other path. The command line implements it over the admin socket and over TLS.

import type { IncomingMessage } from 'node:http';
import type { Kind } from '../../api/kind.ts';
import { apiVersion, type JsonObject, type Resource } from '../../api/object.ts';
import { hasCode } from '../errors/error.ts';

export interface RequestOptions {
  readonly method?: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly accept?: string;
  readonly contentType?: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export interface Selection {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface List<T = Resource> {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[];
}

/** meta.k8s.io/v1 Table: rows that the site has laid out. */
export interface Table {
  readonly kind: 'Table';
  readonly metadata: { readonly resourceVersion?: string; readonly continue?: string };
  readonly columnDefinitions: readonly {
    readonly name: string;
    readonly type: string;
    readonly priority?: number;
  }[];
  readonly rows: readonly {
    readonly cells: readonly unknown[];
    readonly object?: { readonly metadata?: { readonly name?: string } };
  }[];
}

export interface WatchEvent<T = Resource> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: T;
}

export interface ApplyOptions {
  readonly force?: boolean;
  readonly dryRun?: boolean;
  readonly fieldManager?: string;
}

export interface SiteClient {
  readonly target: string;
  /** Any request; throws the site's error as a HansaError. */
  request(options: RequestOptions): Promise<Answer>;
  /** The body of a GET as text, whatever its status: /readyz explains itself with 503. */
  text(path: string, query?: Readonly<Record<string, string>>): Promise<string>;
  /** A large body, in chunks as they arrive. */
  stream(path: string): Promise<IncomingMessage>;
  get(kind: Kind, name: string): Promise<Resource>;
  /** All pages. */
  list(kind: Kind, selection?: Selection): Promise<List>;
  table(kind: Kind, name: string | undefined, selection?: Selection): Promise<Table>;
  /** `created` says whether the object is new. */
  apply(
    kind: Kind,
    name: string,
    object: JsonObject,
    options?: ApplyOptions,
  ): Promise<{ object: Resource; created: boolean }>;
  create(kind: Kind, object: JsonObject, options?: { dryRun?: boolean }): Promise<Resource>;
  /** The deleted object, or its current state where finalizers keep it. */
  delete(kind: Kind, name: string, options?: { dryRun?: boolean }): Promise<Resource>;
  /** Events after `resourceVersion`, until the site ends the stream (it does so now and then). */
  watch(
    kind: Kind,
    options: Selection & { resourceVersion?: string; signal?: AbortSignal; table?: boolean },
  ): AsyncGenerator<WatchEvent<Resource | Table>, void>;
}

/** Undefined where the site has no such object. */
export async function findObject<T>(
  client: Pick<SiteClient, 'get'>,
  kind: Kind,
  name: string,
): Promise<T | undefined> {
  try {
    return (await client.get(kind, name)) as T;
  } catch (error) {
    if (hasCode(error, 'HANSA_NOT_FOUND')) return undefined;
    throw error;
  }
}

/** The field manager of this program in server-side apply. */
export const fieldManager = 'hansa';

export function collectionPath(kind: Kind): string {
  return `/apis/${apiVersion}/${kind.plural}`;
}

export function objectPath(kind: Kind, name: string): string {
  return `${collectionPath(kind)}/${encodeURIComponent(name)}`;
}
