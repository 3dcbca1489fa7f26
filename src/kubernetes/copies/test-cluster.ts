// Test fixture: a cluster in memory with the few rules of an API server that the member controller meets:
// versions, preconditions, fencing, namespaces and garbage collection. It notes each write of ours, and
// each that must not happen.

import { type Clock, type Random, sleep } from '../../core/clock/clock.ts';
import type { KubeObject, KubePreconditions } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import { epochOf } from '../fencing/fenced-writer.ts';
import { deletingAnnotation, epochAnnotation, ownConditions } from '../names.ts';
import type { EndpointSlice, Namespace, Node, ObjectMeta, Service } from '../objects.ts';
import type { SyncedMember } from './synced-member.ts';

export interface Kinds {
  readonly services: Service;
  readonly slices: EndpointSlice;
  readonly nodes: Node;
  readonly namespaces: Namespace;
  readonly nativeServices: Stored;
}
export type KindName = keyof Kinds;
export type Stored = KubeObject & { readonly metadata: ObjectMeta };
export type ClusterListener = (kind: KindName, change: ObjectChange<Stored>) => void;

export const keyOfObject = ({ metadata }: { readonly metadata: ObjectMeta }): string =>
  metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`;

export class TestCluster {
  readonly id: string;
  /** Our writes, as `create services shop/shop`. */
  readonly writes: string[] = [];
  /** Our writes that no API server would get from a controller that keeps the rules. */
  readonly violations: string[] = [];
  /** Decides the status of the answer to a request, instead of the real one. */
  fault: (request: string) => number | undefined = () => undefined;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #objects: Readonly<Record<KindName, Map<string, Stored>>> = {
    services: new Map(),
    slices: new Map(),
    nodes: new Map(),
    namespaces: new Map(),
    nativeServices: new Map(),
  };
  readonly #listeners = new Set<ClusterListener>();
  #version = 100;

  constructor(id: string, clock: Clock, random: Random) {
    this.id = id;
    this.#clock = clock;
    this.#random = random;
    for (const name of ['hansa-system', 'shop']) this.putNamespace(name);
  }

  onChange(listener: ClusterListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  all<K extends KindName>(kind: K): readonly Kinds[K][] {
    return [...this.#objects[kind].values()] as unknown as Kinds[K][];
  }

  find<K extends KindName>(kind: K, key: string): Kinds[K] | undefined {
    return this.#objects[kind].get(key) as unknown as Kinds[K] | undefined;
  }

  /** A write of a user or of Kubernetes. Keeps uid and creation time of what is there. */
  put<K extends KindName>(kind: K, object: Kinds[K]): Kinds[K] {
    const key = keyOfObject(object);
    const old = this.#objects[kind].get(key);
    const metadata: ObjectMeta = {
      uid: old?.metadata.uid ?? `uid-${this.id}-${this.#version + 1}`,
      creationTimestamp: old?.metadata.creationTimestamp ?? '2026-01-01T00:00:00Z',
      ...object.metadata,
      resourceVersion: String(++this.#version),
    };
    const stored = { ...object, metadata } as unknown as Stored;
    this.#objects[kind].set(key, stored);
    this.#tell(kind, { key, old, new: stored });
    return stored as unknown as Kinds[K];
  }

  /** A change by hand. Does nothing where there is no such object. */
  edit<K extends KindName>(kind: K, key: string, change: (object: Kinds[K]) => Kinds[K]): void {
    const found = this.find(kind, key);
    if (found !== undefined) this.put(kind, change(found));
  }

  remove(kind: KindName, key: string): void {
    const old = this.#objects[kind].get(key);
    if (old === undefined) return;
    this.#version++;
    this.#objects[kind].delete(key);
    this.#tell(kind, { key, old, new: undefined });
    if (kind === 'services') {
      const owned = this.all('slices').filter(({ metadata }) =>
        metadata.ownerReferences?.some(({ uid }) => uid === old.metadata.uid),
      );
      for (const slice of owned) this.remove('slices', keyOfObject(slice));
    }
    if (kind === 'namespaces') this.#empty(key);
  }

  putNamespace(name: string): void {
    this.put('namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }

  readonly client: SyncedMember['client'] = {
    get: async <T extends KubeObject>(path: string): Promise<T> => {
      await this.#arrives(`get ${path}`);
      const { kind, key } = parsed(path);
      const found = this.find(kind, key);
      if (found === undefined) throw failure(404, path);
      return found as unknown as T;
    },
    create: async <T extends KubeObject>(path: string, object: unknown): Promise<T> => {
      const { kind, key } = parsed(`${path}/${(object as Stored).metadata.name}`);
      await this.#arrives(`create ${kind} ${key}`);
      const { namespace = '' } = (object as Stored).metadata;
      if (this.find('namespaces', namespace) === undefined) throw failure(404, path);
      if (this.find(kind, key) !== undefined) throw failure(409, path);
      return this.put(kind, object as Kinds[typeof kind]) as unknown as T;
    },
    replace: async <T extends KubeObject>(path: string, object: unknown): Promise<T> => {
      const { kind, key, isStatus } = parsed(path);
      await this.#arrives(`${isStatus ? 'status' : 'replace'} ${kind} ${key}`);
      const old = this.find(kind, key) as Stored | undefined;
      if (old === undefined) throw failure(404, path);
      const now = object as Stored;
      if (now.metadata.resourceVersion !== old.metadata.resourceVersion) throw failure(409, path);
      if (isStatus) this.#checkStatus(old as Service, object as Service);
      else this.#checkReplacement(path, old, now);
      return this.put(kind, object as Kinds[typeof kind]) as unknown as T;
    },
    delete: async (path: string, preconditions: KubePreconditions = {}): Promise<void> => {
      const { kind, key } = parsed(path);
      await this.#arrives(`delete ${kind} ${key}`);
      const old = this.find(kind, key) as Stored | undefined;
      if (old === undefined) return;
      const { uid, resourceVersion, annotations } = old.metadata;
      if (preconditions.uid !== uid || preconditions.resourceVersion !== resourceVersion) {
        throw failure(409, path);
      }
      if (annotations?.[deletingAnnotation] !== annotations?.[epochAnnotation]) {
        this.violations.push(`delete without a current mark: ${path}`);
      }
      this.remove(kind, key);
    },
  };

  async #arrives(request: string): Promise<void> {
    await sleep(this.#clock, 1 + this.#random.unit() * 3);
    const status = this.fault(request);
    if (status !== undefined) throw failure(status, request);
    if (!request.startsWith('get ')) this.writes.push(request);
  }

  #checkReplacement(path: string, old: Stored, now: Stored): void {
    if (old.metadata.annotations?.[epochAnnotation] === undefined) {
      this.violations.push(`replaces an object of a user: ${path}`);
    }
    // As the admission policy does.
    if (epochOf(now.metadata) < epochOf(old.metadata)) throw failure(422, path);
  }

  #checkStatus(old: Service, now: Service): void {
    const rest = ({ metadata, spec, status }: Service): string =>
      JSON.stringify([
        metadata,
        spec,
        status?.loadBalancer,
        (status?.conditions ?? []).filter(({ type }) => !ownConditions.includes(type)),
      ]);
    if (rest(old) !== rest(now)) this.violations.push(`status of ${keyOfObject(old)}`);
  }

  #empty(namespace: string): void {
    for (const kind of ['services', 'slices', 'nativeServices'] as const) {
      for (const { metadata } of this.all(kind)) {
        if (metadata.namespace === namespace) this.remove(kind, keyOfObject({ metadata }));
      }
    }
  }

  #tell(kind: KindName, change: ObjectChange<Stored>): void {
    for (const listener of this.#listeners) listener(kind, change);
  }
}

const pathPattern =
  /^\/(?:api\/v1|apis\/discovery\.k8s\.io\/v1)\/namespaces\/([^/]+)\/(services|endpointslices)\/([^/]+?)(\/status)?$/;

function parsed(path: string) {
  const [, namespace = '', plural = '', name = '', status] = pathPattern.exec(path) ?? [];
  if (name === '') throw new Error(`the test cluster does not know ${path}`);
  const kind = plural === 'services' ? ('services' as const) : ('slices' as const);
  return { kind, key: `${namespace}/${name}`, isStatus: status !== undefined };
}

function failure(status: number, what: string): KubeStatusError {
  const body = Buffer.from(JSON.stringify({ kind: 'Status', reason: 'Test', message: what }));
  return new KubeStatusError('test', what, { status, headers: {}, body });
}
