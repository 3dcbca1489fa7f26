// Test fixture: a model of an API server with one collection, as a Kubernetes client without sockets.
// It follows the rules of kube-apiserver for versions, pages, bookmarks and compaction, and has faults.

import type { KubeObject, KubeRequest, KubeResponse, KubeStream } from '../kube-client.ts';
import { unreachable } from '../kube-errors.ts';
import { KubeVerbs } from '../kube-verbs.ts';

export interface ModelObject extends KubeObject {
  readonly metadata: KubeObject['metadata'] & {
    readonly resourceVersion: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly managedFields?: unknown;
  };
}

interface HistoryEvent {
  readonly version: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: ModelObject;
}

export type InitialEvents = 'sends' | 'rejects' | 'ignores';
type Objects = ReadonlyMap<string, ModelObject>;

/** One open watch. */
class ModelStream {
  readonly after: number;
  readonly #parts: Buffer[] = [];
  readonly #signal: AbortSignal | undefined;
  readonly #cut: (text: Buffer) => readonly Buffer[];
  #wake: (() => void) | undefined;
  #error: unknown;
  #isOver = false;
  isDeaf = false;

  constructor(
    after: number,
    signal: AbortSignal | undefined,
    cut: (text: Buffer) => readonly Buffer[],
  ) {
    this.after = after;
    this.#signal = signal;
    this.#cut = cut;
    signal?.addEventListener('abort', () => this.end(signal.reason), { once: true });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  send(value: unknown): void {
    this.sendText(`${JSON.stringify(value)}\n`);
  }

  sendText(text: string): void {
    if (this.#isOver || this.isDeaf) return;
    this.#parts.push(...this.#cut(Buffer.from(text)));
    this.#wake?.();
  }

  /** With an error: what was not read yet is lost. */
  end(error?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#error = error;
    if (error !== undefined) this.#parts.length = 0;
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

export class ModelServer extends KubeVerbs {
  readonly requests: Readonly<Record<string, string>>[] = [];
  readonly streams = new Set<ModelStream>();
  initialEvents: InitialEvents = 'sends';
  /** How far lists that need not be consistent are behind. */
  lag = 0;
  /** Answers to the next requests, instead of the real ones. */
  readonly faults: ('429' | '410' | '500' | 'reset' | 'hang' | 'garbage')[] = [];
  /** How the bytes of a watch are cut into chunks. */
  cut: (text: Buffer) => readonly Buffer[] = (text) => [text];
  #version = 1;
  #compacted = 1;
  #history: HistoryEvent[] = [];
  #snapshots = new Map<number, Objects>([[1, new Map()]]);

  constructor() {
    super('model');
  }

  get version(): number {
    return this.#version;
  }

  get objects(): Objects {
    return this.#snapshots.get(this.#version) as Objects;
  }

  put(name: string, labels: Readonly<Record<string, string>> = {}): void {
    const version = this.#version + 1;
    const object: ModelObject = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name,
        namespace: 'default',
        resourceVersion: String(version),
        labels,
        managedFields: [{ manager: 'model' }],
      },
    };
    const type = this.objects.has(name) ? 'MODIFIED' : 'ADDED';
    this.#commit({ version, type, object }, new Map([...this.objects, [name, object]]));
  }

  remove(name: string): void {
    const old = this.objects.get(name);
    if (old === undefined) return;
    const version = this.#version + 1;
    const object = { ...old, metadata: { ...old.metadata, resourceVersion: String(version) } };
    const rest = new Map(this.objects);
    rest.delete(name);
    this.#commit({ version, type: 'DELETED', object }, rest);
  }

  /** A change elsewhere in the cluster. */
  tick(): void {
    this.#snapshots.set(this.#version + 1, this.objects);
    this.#version++;
  }

  /** Forgets the history; later watches from an older version get 410. */
  compact(): void {
    this.#compacted = this.#version;
    this.#history = [];
    for (const version of this.#snapshots.keys()) {
      if (version < this.#version) this.#snapshots.delete(version);
    }
  }

  /** etcd is restored from a backup of an earlier version. */
  restore(version: number): void {
    const target = Math.max(version, this.#compacted);
    this.#history = this.#history.filter((event) => event.version <= target);
    for (const each of this.#snapshots.keys()) if (each > target) this.#snapshots.delete(each);
    this.#version = target;
    this.reset();
  }

  /** Sends what kube-apiserver sends each minute: a version, if it is newer than the start of the watch. */
  bookmark(): void {
    for (const stream of this.streams) {
      if (this.#version > stream.after) stream.send(bookmarkOf(this.#version));
    }
  }

  reset(): void {
    for (const stream of this.streams) stream.end(unreachable('model', 'reset', 'reset'));
    this.streams.clear();
  }

  endWatches(): void {
    for (const stream of this.streams) stream.end();
    this.streams.clear();
  }

  /** Open watches hear nothing more, and do not end. */
  blackHole(): void {
    for (const stream of this.streams) stream.isDeaf = true;
  }

  sendText(text: string): void {
    for (const stream of this.streams) stream.sendText(text);
  }

  /** Sends the last event again. */
  repeat(): void {
    const last = this.#history.at(-1);
    if (last === undefined) return;
    for (const stream of this.streams) if (last.version > stream.after) stream.send(eventOf(last));
  }

  async request({ query = {}, signal }: KubeRequest): Promise<KubeResponse> {
    this.requests.push(query);
    const fault = await this.#fault(signal);
    if (fault !== undefined) return fault;
    const { limit = '0', continue: token } = query;
    let version = this.#version;
    let from = 0;
    if (token !== undefined) {
      [version = 0, from = 0] = token.split(':').map(Number);
      if (version < this.#compacted) return statusResponse(410, 'Expired');
    } else if (query['resourceVersionMatch'] === 'NotOlderThan') {
      const minimum = Number(query['resourceVersion']);
      if (minimum > this.#version) return tooLarge;
      version = Math.max(minimum, this.#compacted, this.#version - this.lag);
    }
    const all = [...(this.#snapshots.get(version) ?? []).values()] as ModelObject[];
    const to = limit === '0' ? all.length : from + Number(limit);
    return jsonResponse(200, {
      apiVersion: 'v1',
      kind: 'ConfigMapList',
      metadata: {
        resourceVersion: String(version),
        ...(to < all.length && { continue: `${version}:${to}` }),
      },
      items: all.slice(from, to).map(({ metadata }) => ({ metadata })),
    });
  }

  async stream({ query = {}, signal }: KubeRequest): Promise<KubeStream> {
    this.requests.push(query);
    const fault = await this.#fault(signal);
    if (fault !== undefined) return streamOf(fault);
    const { sendInitialEvents, resourceVersion = '' } = query;
    if (sendInitialEvents !== undefined) {
      if (this.initialEvents === 'rejects') return streamOf(statusResponse(422, 'Invalid'));
      if (Number(resourceVersion) > this.#version) return streamOf(tooLarge);
    }
    const isInitial = sendInitialEvents !== undefined || resourceVersion === '';
    const after = isInitial ? this.#version : Number(resourceVersion);
    const stream = new ModelStream(after, signal, this.cut);
    this.streams.add(stream);
    if (isInitial) {
      for (const object of this.objects.values()) stream.send({ type: 'ADDED', object });
      if (sendInitialEvents !== undefined && this.initialEvents === 'sends') {
        stream.send(bookmarkOf(this.#version, { 'k8s.io/initial-events-end': 'true' }));
      }
    } else if (after < this.#compacted) {
      const object = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' };
      stream.send({ type: 'ERROR', object });
      stream.end();
    } else {
      for (const event of this.#history) if (event.version > after) stream.send(eventOf(event));
    }
    return {
      status: 200,
      headers: {},
      body: stream.body(),
      close: () => {
        stream.end();
        this.streams.delete(stream);
      },
    };
  }

  close(): void {
    this.endWatches();
  }

  #commit(event: HistoryEvent, objects: Objects): void {
    this.#version = event.version;
    this.#history.push(event);
    this.#snapshots.set(event.version, objects);
    // A watch from the future skips the events before its version, as in kube-apiserver.
    for (const stream of this.streams) {
      if (event.version > stream.after) stream.send(eventOf(event));
    }
  }

  async #fault(signal: AbortSignal | undefined): Promise<KubeResponse | undefined> {
    await Promise.resolve();
    signal?.throwIfAborted();
    switch (this.faults.shift()) {
      case '429':
        return statusResponse(429, 'TooManyRequests', { 'retry-after': '7' });
      case '410':
        return statusResponse(410, 'Expired');
      case '500':
        return statusResponse(500, 'InternalError');
      case 'garbage':
        return { status: 200, headers: {}, body: Buffer.from('<html>\n') };
      case 'reset':
        throw unreachable('model', 'reset', 'connection reset');
      case 'hang':
        throw unreachable('model', 'timeout', 'it did not answer');
      default:
        return undefined;
    }
  }
}

function bookmarkOf(version: number, annotations: object = {}): unknown {
  const metadata = { resourceVersion: String(version), annotations };
  return { type: 'BOOKMARK', object: { apiVersion: 'v1', kind: 'ConfigMap', metadata } };
}

function eventOf({ type, object }: HistoryEvent): unknown {
  return { type, object };
}

function jsonResponse(
  status: number,
  value: unknown,
  headers: KubeResponse['headers'] = {},
): KubeResponse {
  return { status, headers, body: Buffer.from(JSON.stringify(value)) };
}

function statusResponse(
  status: number,
  reason: string,
  headers: KubeResponse['headers'] = {},
): KubeResponse {
  return jsonResponse(status, { kind: 'Status', code: status, reason, message: reason }, headers);
}

const tooLarge = jsonResponse(504, {
  kind: 'Status',
  code: 504,
  reason: 'Timeout',
  message: 'Too large resource version',
  details: { causes: [{ reason: 'ResourceVersionTooLarge' }], retryAfterSeconds: 1 },
});

function streamOf({ status, headers, body }: KubeResponse): KubeStream {
  return {
    status,
    headers,
    body: (async function* () {
      yield await Promise.resolve(body);
    })(),
    close: () => undefined,
  };
}
