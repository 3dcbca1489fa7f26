// A `KubeClient` of the in-memory API server: one user, over a link that takes time and can be cut. Without
// a link, requests take no time.

import type { Clock } from '../../../src/core/clock/clock.ts';
import type { KubeRequest, KubeResponse, KubeStream } from '../../../src/core/kube/kube-client.ts';
import { unreachable, type UnreachableReason } from '../../../src/core/kube/kube-errors.ts';
import { KubeVerbs } from '../../../src/core/kube/kube-verbs.ts';
import { KubeWatch, type WatchSink } from './kube-watch.ts';
import { type KubeCall, type MemoryKube, ServerDied } from './memory-kube.ts';
import { StreamBody } from './stream-body.ts';

/** The way between a process and an API server. */
export interface KubeLink {
  /** Of the process. It gets nothing while its clock is paused, and never after it was killed. */
  readonly clock: Clock;
  /** Of the network: what was sent arrives also where the process died meanwhile. */
  readonly network: Clock;
  /** Of one message. */
  delayMs(): number;
  reaches(): boolean;
  /** When a process notices that its watch was cut off; undefined: never, as the connection stays silent. */
  noticesAfterMs(): number | undefined;
}

export interface MemoryKubeClientOptions {
  readonly cluster: MemoryKube;
  /** Default: one that may do everything, unless the cluster has rules. */
  readonly user?: string;
  /** The field manager of all writes, instead of that of the plane. */
  readonly manager?: string;
  readonly link?: KubeLink | undefined;
}

const defaultTimeoutMs = 10_000;

export class MemoryKubeClient extends KubeVerbs {
  readonly cluster: MemoryKube;
  readonly #user: string;
  readonly #manager: string | undefined;
  readonly #link: KubeLink | undefined;

  constructor({ cluster, user = 'admin', manager, link }: MemoryKubeClientOptions) {
    super(cluster.name);
    this.cluster = cluster;
    this.#user = user;
    this.#manager = manager;
    this.#link = link;
  }

  async request(request: KubeRequest): Promise<KubeResponse> {
    const call = this.#callOf(request);
    return this.#exchange(request, () => this.cluster.handle(call));
  }

  async stream(request: KubeRequest): Promise<KubeStream> {
    const call = this.#callOf(request);
    const { signal } = request;
    const body = new StreamBody((text) => this.cut(text));
    let begun: KubeWatch | KubeResponse | undefined;
    const cutOff = (): void => {
      if (begun instanceof KubeWatch) begun.end();
    };
    try {
      begun = await this.#exchange(request, () => {
        begun = this.cluster.watch(call, this.#sinkOf(body, cutOff));
        return begun;
      });
    } catch (error) {
      // It began, but the answer never arrived.
      cutOff();
      throw error;
    }
    if (!(begun instanceof KubeWatch)) return wholeStream(begun);
    const watch = begun;
    signal?.addEventListener(
      'abort',
      () => {
        body.end(signal.reason);
        watch.end();
      },
      { once: true },
    );
    return {
      status: 200,
      headers: {},
      body: body.parts(),
      close: () => {
        body.end();
        watch.end();
      },
    };
  }

  close(): void {
    // There is no pool.
  }

  /** How the bytes of a watch are cut into chunks. */
  cut(text: Buffer): readonly Buffer[] {
    return [text];
  }

  #callOf({
    method,
    path,
    query: given = {},
    body,
    contentType = 'application/json',
  }: KubeRequest): KubeCall {
    const isManaged = this.#manager !== undefined && 'fieldManager' in given;
    const query = isManaged ? { ...given, fieldManager: this.#manager } : given;
    // What was sent does not change with the object of the caller.
    const parsed: unknown =
      body === undefined
        ? undefined
        : JSON.parse(Buffer.isBuffer(body) ? body.toString() : JSON.stringify(body));
    return { method, path, query, body: parsed, contentType, user: this.#user };
  }

  /** Sends a request and waits for the answer. `handle` runs when it arrives at the server. */
  async #exchange<T>(request: KubeRequest, handle: () => T): Promise<T> {
    const { signal, timeoutMs = defaultTimeoutMs } = request;
    signal?.throwIfAborted();
    request.beforeSend?.();
    const link = this.#link;
    if (link === undefined) {
      await Promise.resolve();
      signal?.throwIfAborted();
      return this.#handled(handle);
    }
    const { clock, network } = link;
    return new Promise<T>((resolve, reject) => {
      const settle = (finish: () => void): void => {
        timer.cancel();
        signal?.removeEventListener('abort', onAbort);
        finish();
      };
      const onAbort = (): void => settle(() => reject(signal?.reason));
      const timer = clock.timer(timeoutMs, () =>
        settle(() => reject(this.#failure('timeout', `no answer after ${timeoutMs} ms`))),
      );
      signal?.addEventListener('abort', onAbort, { once: true });
      const arrive = (): void => {
        if (!link.reaches()) return;
        let finish: () => void;
        try {
          const answer = this.#handled(handle);
          finish = () => resolve(answer);
        } catch (error) {
          finish = () => reject(error);
        }
        network.timer(link.delayMs(), () => {
          if (link.reaches()) clock.timer(0, () => settle(finish));
        });
      };
      network.timer(link.delayMs(), arrive);
    });
  }

  #handled<T>(handle: () => T): T {
    if (this.cluster.isDown) throw this.#failure('refused', 'connection refused');
    try {
      return handle();
    } catch (error) {
      if (error instanceof ServerDied) throw this.#failure('reset', 'connection reset');
      throw error;
    }
  }

  /** Lines arrive late, in order, and not at all after the link was cut, of which the server hears at once. */
  #sinkOf(body: StreamBody, cutOff: () => void): WatchSink {
    const link = this.#link;
    const reset = (): void => body.end(this.#failure('reset', 'connection reset'));
    if (link === undefined) {
      return {
        line: (text) => body.push(text),
        end: (how) => (how === 'reset' ? reset() : body.end()),
      };
    }
    const { clock, network } = link;
    let isCut = false;
    let lastMs = 0;
    const deliver = (take: () => void): void => {
      const nowMs = network.monotonic();
      lastMs = Math.max(lastMs, nowMs + link.delayMs());
      network.timer(lastMs - nowMs, () => {
        if (isCut) return;
        if (link.reaches()) {
          clock.timer(0, take);
          return;
        }
        isCut = true;
        cutOff();
        const noticeMs = link.noticesAfterMs();
        if (noticeMs !== undefined) clock.timer(noticeMs, reset);
      });
    };
    return {
      line: (text) => deliver(() => body.push(text)),
      end: (how) => deliver(how === 'reset' ? reset : () => body.end()),
    };
  }

  #failure(reason: UnreachableReason, why: string): Error {
    return unreachable(this.where, reason, why);
  }
}

export function wholeStream({ status, headers, body }: KubeResponse): KubeStream {
  return {
    status,
    headers,
    body: (async function* () {
      yield await Promise.resolve(body);
    })(),
    close: () => undefined,
  };
}
