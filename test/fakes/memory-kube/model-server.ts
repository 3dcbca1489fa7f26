// The in-memory API server as tests of the reflector use it: one collection of ConfigMaps, faults for single
// requests, and a record of all queries.

import type {
  KubeObject,
  KubeRequest,
  KubeResponse,
  KubeStream,
} from '../../../src/core/kube/kube-client.ts';
import { unreachable } from '../../../src/core/kube/kube-errors.ts';
import { KubeFailure } from './kube-failure.ts';
import type { KubeWatch } from './kube-watch.ts';
import { MemoryKube } from './memory-kube.ts';
import { MemoryKubeClient, wholeStream } from './memory-kube-client.ts';

export interface ModelObject extends KubeObject {
  readonly metadata: KubeObject['metadata'] & {
    readonly resourceVersion: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly managedFields?: unknown;
  };
}

const plural = 'configmaps';
const namespace = 'default';

export class ModelServer extends MemoryKubeClient {
  readonly requests: Readonly<Record<string, string>>[] = [];
  /** Answers to the next requests, instead of the real ones. */
  readonly faults: ('429' | '410' | '500' | 'reset' | 'hang' | 'garbage')[] = [];

  constructor() {
    super({ cluster: new MemoryKube({ name: 'model' }) });
  }

  get version(): number {
    return this.cluster.revision;
  }

  get objects(): ReadonlyMap<string, ModelObject> {
    const all = this.cluster.objects<ModelObject>(plural);
    return new Map(all.map((object) => [object.metadata.name, object]));
  }

  get streams(): ReadonlySet<KubeWatch> {
    return this.cluster.watches;
  }

  put(name: string, labels: Readonly<Record<string, string>> = {}): void {
    const metadata = { labels, managedFields: [{ manager: 'model' }] };
    this.cluster.put(plural, namespace, name, { metadata });
  }

  remove(name: string): void {
    this.cluster.put(plural, namespace, name, undefined);
  }

  /** A change elsewhere in the cluster. */
  tick(): void {
    this.cluster.tick();
  }

  /** Forgets the history; later watches from an older version get 410. */
  compact(): void {
    this.cluster.compact();
  }

  /** etcd is restored from a backup of an earlier version. */
  restore(version: number): void {
    const { cluster } = this;
    cluster.restore(cluster.backup(Math.max(version, cluster.compacted)));
  }

  /** Sends what kube-apiserver sends each minute: a version, if it is newer than the start of the watch. */
  bookmark(): void {
    this.cluster.bookmark();
  }

  reset(): void {
    this.cluster.endWatches('reset');
  }

  endWatches(): void {
    this.cluster.endWatches('end');
  }

  /** Open watches hear nothing more, and do not end. */
  blackHole(): void {
    this.cluster.deafenWatches();
  }

  sendText(text: string): void {
    for (const watch of this.streams) watch.text(text);
  }

  /** Sends the last event again. */
  repeat(): void {
    const { lastChange } = this.cluster;
    if (lastChange === undefined) return;
    for (const watch of this.streams) watch.change(lastChange);
  }

  override async request(request: KubeRequest): Promise<KubeResponse> {
    return (await this.#fault(request)) ?? super.request(request);
  }

  override async stream(request: KubeRequest): Promise<KubeStream> {
    const fault = await this.#fault(request);
    return fault === undefined ? super.stream(request) : wholeStream(fault);
  }

  async #fault({ query = {}, signal }: KubeRequest): Promise<KubeResponse | undefined> {
    this.requests.push(query);
    await Promise.resolve();
    signal?.throwIfAborted();
    switch (this.faults.shift()) {
      case '429':
        return new KubeFailure(429, 'TooManyRequests', 'slow down', { retryAfterSeconds: 7 })
          .response;
      case '410':
        return new KubeFailure(410, 'Expired', 'too old').response;
      case '500':
        return new KubeFailure(500, 'InternalError', 'broken').response;
      case 'garbage':
        return { status: 200, headers: {}, body: Buffer.from('<html>\n') };
      case 'reset':
        throw unreachable(this.where, 'reset', 'connection reset');
      case 'hang':
        throw unreachable(this.where, 'timeout', 'it did not answer');
      default:
        return undefined;
    }
  }
}
