// Test fixture: a cluster as a Kubernetes client without sockets. It holds objects of any collection, serves
// lists and watches, and can be away or refuse.

import { clustersGroup } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import type {
  KubeObject,
  KubeRequest,
  KubeResponse,
  KubeStream,
} from '../../core/kube/kube-client.ts';
import { unreachable } from '../../core/kube/kube-errors.ts';
import { allEntities } from '../entities/compile-external-entities.ts';
import { exportsPath, importsPath } from '../mcs/mcs-objects.ts';
import { KubeVerbs } from '../../core/kube/kube-verbs.ts';

export const paths = {
  claims: `/apis/${clustersGroup}/${version}/clusterclaims`,
  federations: `/apis/${clustersGroup}/${version}/federations`,
  nativeServices: `/apis/${clustersGroup}/${version}/nativeservices`,
  virtualMachines: `/apis/${clustersGroup}/${version}/virtualmachines`,
  serviceExports: exportsPath,
  serviceImports: importsPath,
  externalEntities: allEntities,
  services: '/api/v1/services',
  slices: '/apis/discovery.k8s.io/v1/endpointslices',
  nodes: '/api/v1/nodes',
  namespaces: '/api/v1/namespaces',
  leases: '/apis/coordination.k8s.io/v1/namespaces/hansa-system/leases',
  secrets: '/api/v1/namespaces/hansa-system/secrets',
} as const;

type Path = (typeof paths)[keyof typeof paths];
type Stored = KubeObject & { readonly metadata: { readonly resourceVersion: string } };

class Watch {
  readonly path: string;
  readonly #parts: Buffer[] = [];
  readonly #signal: AbortSignal | undefined;
  #wake: (() => void) | undefined;
  #error: unknown;
  #isOver = false;

  constructor(path: string, signal: AbortSignal | undefined) {
    this.path = path;
    this.#signal = signal;
    signal?.addEventListener('abort', () => this.end(signal.reason), { once: true });
  }

  send(event: unknown): void {
    this.#parts.push(Buffer.from(`${JSON.stringify(event)}\n`));
    this.#wake?.();
  }

  end(error?: unknown): void {
    this.#isOver = true;
    this.#error ??= error;
    this.#wake?.();
  }

  async *body(): AsyncGenerator<Buffer, void> {
    for (;;) {
      const part = this.#parts.shift();
      if (part !== undefined) yield part;
      else if (this.#isOver) break;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
    this.#signal?.throwIfAborted();
    if (this.#error !== undefined) throw this.#error;
  }
}

export class TestCluster extends KubeVerbs {
  /** Statuses for requests to a collection, or for one method there (`POST PATH`), instead of real answers. */
  readonly refusals = new Map<string, number>();
  readonly requests: string[] = [];
  isAway = false;
  /** Watches stay open and hear nothing. */
  isSilent = false;
  isClosed = false;
  readonly #collections = new Map<string, Map<string, Stored>>();
  readonly #watches = new Set<Watch>();
  #version = 1;

  /** A member with this ID, unless undefined. */
  constructor(id?: string) {
    super(`${id ?? 'nameless'}.example:6443`);
    if (id !== undefined) this.claim('id.k8s.io', id);
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  claim(name: string, value: string, object = name.toLowerCase()): void {
    this.put(paths.claims, {
      apiVersion: `${clustersGroup}/${version}`,
      kind: 'ClusterClaim',
      metadata: { name: object },
      spec: { name, value },
    });
  }

  /** `object` may be anything that has a name. */
  put(path: Path, object: object): void {
    const found = object as Stored;
    const { name, namespace } = found.metadata;
    // A collection of one namespace has the names only.
    const isNamed = namespace === undefined || path.includes('/namespaces/');
    const key = isNamed ? name : `${namespace}/${name}`;
    const collection = this.#collection(path);
    const type = collection.has(key) ? 'MODIFIED' : 'ADDED';
    const resourceVersion = String(++this.#version);
    const stored = { ...found, metadata: { ...found.metadata, resourceVersion } };
    collection.set(key, stored);
    this.#tell(path, { type, object: stored });
  }

  remove(path: Path, key: string): void {
    const old = this.#collection(path).get(key);
    if (old === undefined) return;
    this.#collection(path).delete(key);
    const metadata = { ...old.metadata, resourceVersion: String(++this.#version) };
    this.#tell(path, { type: 'DELETED', object: { ...old, metadata } });
  }

  find(path: Path, key: string): unknown {
    return this.#collection(path).get(key);
  }

  goAway(): void {
    this.isAway = true;
    for (const watch of this.#watches) watch.end(this.#lost());
    this.#watches.clear();
  }

  comeBack(): void {
    this.isAway = false;
  }

  async request({ method, path, body, beforeSend }: KubeRequest): Promise<KubeResponse> {
    beforeSend?.();
    this.requests.push(`${method} ${path}`);
    await Promise.resolve();
    const refusal = this.#refusal(path, method);
    if (refusal !== undefined) return refusal;
    if (method === 'GET' && this.#isCollection(path)) return this.#list(path);
    return method === 'GET' ? this.#get(path) : this.#write(path, body as Stored);
  }

  async stream({ path, query = {}, signal }: KubeRequest): Promise<KubeStream> {
    this.requests.push(`WATCH ${path}`);
    await Promise.resolve();
    signal?.throwIfAborted();
    const refusal = this.#refusal(path, 'GET');
    const watch = new Watch(path, signal);
    const close = (): void => {
      watch.end();
      this.#watches.delete(watch);
    };
    if (refusal !== undefined) {
      watch.send(JSON.parse(String(refusal.body)));
      watch.end();
      return { status: refusal.status, headers: {}, body: watch.body(), close };
    }
    this.#watches.add(watch);
    if (query['sendInitialEvents'] !== undefined) {
      for (const object of this.#collection(path).values()) watch.send({ type: 'ADDED', object });
      const metadata = {
        resourceVersion: String(this.#version),
        annotations: { 'k8s.io/initial-events-end': 'true' },
      };
      watch.send({ type: 'BOOKMARK', object: { apiVersion: 'v1', kind: 'X', metadata } });
    }
    return { status: 200, headers: {}, body: watch.body(), close };
  }

  close(): void {
    this.isClosed = true;
  }

  #tell(path: string, event: unknown): void {
    if (this.isSilent) return;
    for (const watch of this.#watches) if (watch.path === path) watch.send(event);
  }

  #refusal(path: string, method: string): KubeResponse | undefined {
    if (this.isAway) throw this.#lost();
    for (const [prefix, status] of this.refusals) {
      if ([path, `${method} ${path}`].some((each) => each.startsWith(prefix)))
        return answer(status, { kind: 'Status', code: status });
    }
    return undefined;
  }

  #lost(): Error {
    return unreachable(this.where, 'refused', 'connection refused');
  }

  #collection(path: string): Map<string, Stored> {
    const found = this.#collections.get(path) ?? new Map<string, Stored>();
    this.#collections.set(path, found);
    return found;
  }

  #isCollection(path: string): boolean {
    return Object.values<string>(paths).includes(path);
  }

  #list(path: string): KubeResponse {
    return answer(200, {
      apiVersion: 'v1',
      kind: 'XList',
      metadata: { resourceVersion: String(this.#version) },
      items: [...this.#collection(path).values()],
    });
  }

  #get(path: string): KubeResponse {
    const { collection, name } = partsOf(path);
    const found = this.#collection(collection).get(name);
    return found === undefined ? answer(404, { kind: 'Status', code: 404 }) : answer(200, found);
  }

  /** POST to a collection, PUT to an object or its status. */
  #write(path: string, body: Stored): KubeResponse {
    const isNew = this.#isCollection(path);
    const { collection, name } = isNew
      ? { collection: path, name: body.metadata.name }
      : partsOf(path.replace(/\/status$/, ''));
    const old = this.#collection(collection).get(name);
    const isConflict = isNew
      ? old !== undefined
      : old?.metadata.resourceVersion !== body.metadata.resourceVersion;
    if (isConflict) return answer(409, { kind: 'Status', code: 409 });
    this.put(collection as Path, body);
    return answer(200, this.#collection(collection).get(name));
  }
}

function partsOf(path: string): { readonly collection: string; readonly name: string } {
  const slash = path.lastIndexOf('/');
  return { collection: path.slice(0, slash), name: path.slice(slash + 1) };
}

function answer(status: number, value: unknown): KubeResponse {
  return { status, headers: {}, body: Buffer.from(JSON.stringify(value)) };
}
