// An in-memory API server: it answers requests as kube-apiserver does, without sockets and, unless it
// gets a clock, without timers. The conformance suite compares it with a real kube-apiserver. It knows the
// kinds that the plane uses, has hooks for access and admission, and faults.

import type { Clock } from '../../../src/core/clock/clock.ts';
import type { KubeResponse } from '../../../src/core/kube/kube-client.ts';
import { builtInResources } from './built-in-resources.ts';
import { leagueResources } from './custom-resources.ts';
import {
  badRequest,
  expired,
  jsonResponse,
  KubeFailure,
  notFound,
  tooLarge,
} from './kube-failure.ts';
import { KubeWatch, type WatchSink } from './kube-watch.ts';
import {
  checkListQuery,
  checkWatchQuery,
  positionOf,
  type Query,
  selectorOf,
  tokenOf,
  versionIn,
} from './list-query.ts';
import { type Backup, MemoryEtcd, type StoredChange } from './memory-etcd.ts';
import { ObjectWriter, type WriteHooks } from './object-writer.ts';
import {
  apiVersionOf,
  keyOf,
  keyPrefix,
  qualifiedName,
  type Resource,
  type Target,
  targetOf,
} from './resource.ts';
import type { StoredObject } from './stored-object.ts';

export interface KubeCall {
  readonly method: string;
  readonly path: string;
  readonly query: Query;
  /** Parsed JSON. */
  readonly body: unknown;
  readonly contentType: string;
  readonly user: string;
}

export interface AccessRequest {
  readonly user: string;
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly isStatus: boolean;
  readonly namespace: string;
  readonly name: string;
}

export interface MemoryKubeOptions extends WriteHooks {
  /** For messages. */
  readonly name?: string;
  /** Gives objects their timestamps, ends watches, and sends bookmarks. */
  readonly clock?: Clock;
  readonly resources?: readonly Resource[];
  /** As RBAC. Default: everybody may do everything. */
  readonly allows?: (request: AccessRequest) => boolean;
}

/** An object that is known to be of this type. */
type Stored<T> = StoredObject & T;

/** As in kube-apiserver. */
const bookmarkMs = 60_000;
const shortestWatchSeconds = 1800;

export class MemoryKube {
  readonly name: string;
  readonly watches = new Set<KubeWatch>();
  /** Whether watches send initial events: since Kubernetes 1.34. */
  initialEvents: 'sends' | 'rejects' | 'ignores' = 'sends';
  /** How many revisions the cache is behind, for lists that need not be consistent. */
  lag = 0;
  /** Connections are refused. */
  isDown = false;
  /** The server dies with the next write, before or after the write is stored. */
  diesAtWrite: 'before' | 'after' | undefined;
  readonly #options: MemoryKubeOptions;
  readonly #etcd: MemoryEtcd;
  readonly #writer: ObjectWriter;
  readonly #listeners = new Set<(change: StoredChange) => void>();
  #resources: readonly Resource[];

  constructor(options: MemoryKubeOptions = {}) {
    this.#options = options;
    this.name = options.name ?? 'memory';
    this.#resources = options.resources ?? [...builtInResources, ...leagueResources];
    this.#etcd = new MemoryEtcd((change) => this.#changed(change));
    this.#writer = new ObjectWriter(this.#etcd, options, options.clock);
  }

  get revision(): number {
    return this.#etcd.revision;
  }

  /** The oldest revision that can still be read. */
  get compacted(): number {
    return this.#etcd.compacted;
  }

  /** The last change in the history, to be sent again. */
  get lastChange(): StoredChange | undefined {
    return this.#etcd.last;
  }

  resource(plural: string): Resource {
    const found = this.#resources.find((each) => each.plural === plural);
    if (found === undefined) throw new Error(`${plural} are not served`);
    return found;
  }

  get resources(): readonly Resource[] {
    return this.#resources;
  }

  /** Past access and admission, and whatever faults there are: for tests and controllers. */
  objects<T extends object>(plural: string, namespace = ''): readonly Stored<T>[] {
    return this.#etcd.list(keyPrefix(this.resource(plural), namespace)) as Stored<T>[];
  }

  /** Stores an object as it is, past all checks. Undefined deletes it. */
  put(plural: string, namespace: string, name: string, object: object | undefined): void {
    this.#writer.store(this.resource(plural), namespace, name, object);
  }

  /** Hears of all changes, past all faults. Returns how to stop. */
  onChange(listener: (change: StoredChange) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  handle(call: KubeCall): KubeResponse {
    try {
      return this.#answer(call);
    } catch (error) {
      if (error instanceof KubeFailure) return error.response;
      throw error;
    }
  }

  /** Begins a watch, or answers why not. */
  watch(call: KubeCall, sink: WatchSink): KubeWatch | KubeResponse {
    try {
      return this.#startWatch(call, sink);
    } catch (error) {
      if (error instanceof KubeFailure) return error.response;
      throw error;
    }
  }

  tick(): void {
    this.#etcd.tick();
  }

  compact(): void {
    this.#etcd.compact();
  }

  backup(revision?: number): Backup {
    return this.#etcd.backup(revision);
  }

  /** etcd is restored and the API server starts again. `bump`: see `MemoryEtcd`. */
  restore(backup: Backup, bump = false): void {
    this.#etcd.restore(backup, bump);
    this.endWatches('reset');
  }

  /** A CRD is installed, or deleted with its objects. */
  serve(resource: Resource): void {
    this.#resources = [...this.#resources, resource];
  }

  stopServing(plural: string): Resource {
    const resource = this.resource(plural);
    for (const { metadata } of this.objects(plural)) {
      this.put(plural, metadata.namespace ?? '', metadata.name, undefined);
    }
    for (const watch of this.watches) {
      if (watch.selects(keyPrefix(resource))) watch.end();
    }
    this.#resources = this.#resources.filter((each) => each !== resource);
    return resource;
  }

  bookmark(): void {
    for (const watch of this.watches) this.#bookmark(watch);
  }

  endWatches(how: 'end' | 'reset'): void {
    for (const watch of this.watches) watch.end(how);
  }

  /** Open watches hear nothing more, and do not end. */
  deafenWatches(): void {
    for (const watch of this.watches) watch.isDeaf = true;
  }

  #changed(change: StoredChange): void {
    for (const watch of this.watches) watch.change(change);
    for (const listener of this.#listeners) listener(change);
  }

  #answer(call: KubeCall): KubeResponse {
    const discovered = this.#discovered(call.path);
    if (discovered !== undefined) return discovered;
    const target = this.#targetOf(call);
    if (target === undefined) return unknownPath;
    const { method, user } = call;
    const { name } = target;
    this.#authorize(call, target, verbOf(call, target));
    if (method === 'GET') {
      return name === undefined ? this.#list(target, call.query) : this.#get(target, name);
    }
    const dies = this.diesAtWrite;
    if (dies === 'before') this.#die();
    const { body, contentType, query } = call;
    const write = { target, user, body, contentType, fieldManager: query['fieldManager'] ?? '' };
    const response = this.#writer.write(method, write);
    if (dies === 'after') this.#die();
    return response;
  }

  /** The resources of a group and version, which every user may see. */
  #discovered(path: string): KubeResponse | undefined {
    const groupVersion = /^\/apis\/([^/]+\/[^/]+)$/.exec(path)?.[1];
    const found = this.#resources.filter((each) => apiVersionOf(each) === groupVersion);
    if (groupVersion === undefined || found.length === 0) return undefined;
    const resources = found.map(({ plural, kind, isNamespaced }) => ({
      name: plural,
      kind,
      namespaced: isNamespaced,
    }));
    return jsonResponse(200, {
      kind: 'APIResourceList',
      apiVersion: 'v1',
      groupVersion,
      resources,
    });
  }

  #die(): never {
    this.diesAtWrite = undefined;
    this.isDown = true;
    this.endWatches('reset');
    throw new ServerDied();
  }

  #targetOf({ path }: KubeCall): Target | undefined {
    return targetOf(path, this.#resources);
  }

  #authorize(
    { user }: KubeCall,
    { resource, namespace, name, isStatus }: Target,
    verb: string,
  ): void {
    const { group, plural } = resource;
    const request = { user, verb, group, resource: plural, isStatus, namespace, name: name ?? '' };
    if (this.#options.allows?.(request) ?? true) return;
    const what = `${plural}${isStatus ? '/status' : ''}`;
    const place = namespace === '' ? 'at the cluster scope' : `in the namespace "${namespace}"`;
    const quoted = name === undefined ? '' : ` "${name}"`;
    throw new KubeFailure(
      403,
      'Forbidden',
      `${qualifiedName(resource)}${quoted} is forbidden: User "${user}" cannot ${verb} resource "${what}" in API group "${group}" ${place}`,
    );
  }

  #get({ resource, namespace }: Target, name: string): KubeResponse {
    const found = this.#etcd.get(keyOf(resource, namespace, name));
    if (found === undefined) throw notFound(qualifiedName(resource), name);
    return jsonResponse(200, found);
  }

  #list({ resource, namespace }: Target, query: Query): KubeResponse {
    checkListQuery(query);
    const { revision, after } = this.#positionOf(query);
    const isSelected = (query['labelSelector'] ?? query['fieldSelector'] ?? '') !== '';
    // A list from the cache has no pages.
    const limit = (query['resourceVersion'] === '0' ? 0 : Number(query['limit'] ?? 0)) || Infinity;
    const page = this.#etcd.page(
      keyPrefix(resource, namespace),
      revision,
      after,
      isSelected ? Infinity : limit,
    );
    const all = isSelected ? page.objects.filter(selectorOf(query)) : page.objects;
    const items = all.slice(0, limit);
    const count = isSelected ? all.length : page.count;
    const last = items.at(-1);
    const hasMore = items.length < count && last !== undefined;
    return jsonResponse(200, {
      apiVersion: apiVersionOf(resource),
      kind: `${resource.kind}List`,
      metadata: {
        resourceVersion: String(revision),
        ...(hasMore && { continue: tokenOf({ revision, after: keyOfObject(resource, last) }) }),
        ...(hasMore && !isSelected && { remainingItemCount: count - items.length }),
      },
      items: resource.isCustom === true ? items : items.map(withoutType),
    });
  }

  /** Which revision a list shows, and from where on. */
  #positionOf(query: Query): { readonly revision: number; readonly after: string } {
    const { revision: current, compacted } = this.#etcd;
    const { continue: token = '', resourceVersionMatch, resourceVersion = '' } = query;
    if (token !== '') {
      const position = positionOf(token);
      if (position.revision < compacted || position.revision > current) {
        throw expired(
          'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.',
        );
      }
      return position;
    }
    const wanted = versionIn(query);
    if (wanted > current) throw tooLarge(wanted, current);
    if (resourceVersion === '') return { revision: current, after: '' };
    const isExact =
      resourceVersionMatch === 'Exact' ||
      (resourceVersionMatch === undefined && wanted > 0 && Number(query['limit'] ?? 0) > 0);
    if (isExact) {
      if (wanted < compacted) throw expired('The provided resource version is too old.');
      return { revision: wanted, after: '' };
    }
    return { revision: Math.max(wanted, compacted, current - this.lag), after: '' };
  }

  #startWatch(call: KubeCall, sink: WatchSink): KubeWatch | KubeResponse {
    const target = this.#targetOf(call);
    if (target === undefined) return unknownPath;
    if (target.name !== undefined) throw badRequest('watch the collection with a field selector');
    this.#authorize(call, target, 'watch');
    const { query } = call;
    checkWatchQuery(query);
    const wanted = versionIn(query);
    const { revision, compacted } = this.#etcd;
    const asksInitial = query['sendInitialEvents'] === 'true';
    if (asksInitial && this.initialEvents === 'rejects') {
      throw new KubeFailure(422, 'Invalid', 'sendInitialEvents is forbidden for watch');
    }
    if (asksInitial && wanted > revision) throw tooLarge(wanted, revision);
    const isInitial = asksInitial || wanted === 0;
    const { resource, namespace } = target;
    const prefix = keyPrefix(resource, namespace);
    const matches = selectorOf(query);
    const watch = new KubeWatch(
      isInitial ? revision : wanted,
      query['allowWatchBookmarks'] === 'true',
      { prefix, matches, apiVersion: apiVersionOf(resource), kind: resource.kind },
      sink,
      () => {
        this.watches.delete(watch);
        for (const timer of timers) timer.cancel();
      },
    );
    const timers = this.#timersOf(watch, query);
    this.watches.add(watch);
    if (!isInitial && wanted < compacted) {
      const { object } = expired(`too old resource version: ${wanted} (${compacted})`);
      watch.event('ERROR', object);
      watch.end();
    } else if (!isInitial) {
      for (const change of this.#etcd.since(wanted)) watch.change(change);
    } else if (query['sendInitialEvents'] !== 'false') {
      for (const object of this.#etcd.list(prefix)) {
        if (matches(object)) watch.event('ADDED', object);
      }
      if (this.initialEvents === 'sends' && watch.wantsBookmarks) {
        watch.bookmark(revision, { 'k8s.io/initial-events-end': 'true' });
      }
    }
    return watch;
  }

  #timersOf(watch: KubeWatch, { timeoutSeconds }: Query): readonly { cancel(): void }[] {
    const { clock } = this.#options;
    if (clock === undefined) return [];
    const again = { cancel: () => undefined as void };
    const next = (): void => {
      const timer = clock.timer(bookmarkMs, () => {
        this.#bookmark(watch);
        next();
      });
      again.cancel = () => timer.cancel();
    };
    next();
    const seconds = Number(timeoutSeconds ?? 0) || shortestWatchSeconds;
    return [again, clock.timer(seconds * 1000, () => watch.end())];
  }

  /** A bookmark says nothing new where the version did not move. */
  #bookmark(watch: KubeWatch): void {
    const { revision } = this.#etcd;
    if (watch.wantsBookmarks && revision > watch.after) watch.bookmark(revision);
  }
}

/** The connection of the request breaks. */
export class ServerDied extends Error {
  override readonly name = 'ServerDied';
}

const unknownPath: KubeResponse = {
  status: 404,
  headers: { 'content-type': 'text/plain; charset=utf-8' },
  body: Buffer.from('404 page not found\n'),
};

function verbOf({ method }: KubeCall, { name }: Target): string {
  if (method === 'GET') return name === undefined ? 'list' : 'get';
  return (
    { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' } as Record<string, string>
  )[method] as string;
}

function keyOfObject(resource: Resource, { metadata }: StoredObject): string {
  return keyOf(resource, metadata.namespace ?? '', metadata.name);
}

/** Lists of built-in kinds leave it out. */
function withoutType({ apiVersion: _version, kind: _kind, ...rest }: StoredObject): object {
  return rest;
}
