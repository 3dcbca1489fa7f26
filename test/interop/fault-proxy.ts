// A proxy between a Kubernetes client and an API server that injects faults: resets, black holes, slow
// bodies, 410, 429 and stale lists.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { serve, type TestServer } from '../../src/core/kube/test-api-server.ts';
import type { KubeApiserver } from './kube-apiserver.ts';

/**
 * For one request: an answer of the proxy, or the first list that passed through it. `stale` is for lists that
 * need not be consistent: no replica answers a consistent read from its past.
 */
export type Answer = 'throttle' | 'expire' | 'stale';

interface Watch {
  readonly response: ServerResponse;
  readonly upstream: IncomingMessage;
}

export class FaultProxy {
  /** The queries of all requests. */
  readonly queries: URLSearchParams[] = [];
  readonly #kube: KubeApiserver;
  readonly #agent: Agent;
  readonly #watches = new Set<Watch>();
  readonly #answers: Answer[] = [];
  #server: TestServer | undefined;
  #firstList: string | undefined;

  constructor(kube: KubeApiserver) {
    this.#kube = kube;
    this.#agent = new Agent({ ca: kube.ca, keepAlive: true });
  }

  async start(): Promise<TestServer['endpoint']> {
    this.#server = await serve((request, response) => this.#handle(request, response));
    return this.#server.endpoint;
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    this.#agent.destroy();
  }

  /** The next requests get these answers, in this order. */
  answer(...answers: readonly Answer[]): void {
    this.#answers.push(...answers);
  }

  /** Resets every connection (RST). */
  reset(): void {
    for (const socket of this.#server?.sockets ?? []) {
      if (!socket.destroyed) socket.resetAndDestroy();
    }
    this.#watches.clear();
  }

  /** Ends every watch as kube-apiserver does. */
  end(): void {
    for (const { response } of this.#take()) response.end();
  }

  /** Open watches get nothing more, and do not end. */
  blackHole(): void {
    for (const { upstream } of this.#take()) upstream.removeAllListeners('data').pause();
  }

  /** Open watches get an event ERROR with 410, as after a compaction. */
  expire(): void {
    const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', ...expired };
    for (const { response, upstream } of this.#take()) {
      upstream.removeAllListeners('data').destroy();
      response.end(`${JSON.stringify({ type: 'ERROR', object: status })}\n`);
    }
  }

  /** Open watches get a half event, and then end. */
  truncate(): void {
    for (const { response, upstream } of this.#take()) {
      upstream.removeAllListeners('data').destroy();
      response.end('{"type":"MODIFIED","object":{"apiVersion":"v1","ki');
    }
  }

  #take(): readonly Watch[] {
    const watches = [...this.#watches];
    this.#watches.clear();
    return watches;
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    const query = new URL(request.url ?? '/', this.#kube.url).searchParams;
    this.queries.push(query);
    const isWatch = query.get('watch') === 'true';
    const answer = this.#answers[0];
    const canBeStale = !isWatch && query.has('resourceVersionMatch') && this.#firstList;
    if (answer !== undefined && (answer !== 'stale' || canBeStale)) {
      this.#answers.shift();
      if (answer === 'throttle') response.writeHead(429, { 'retry-after': '1' }).end('{}');
      else if (answer === 'expire') response.writeHead(410).end(JSON.stringify(expired));
      else response.end(this.#firstList);
      return;
    }
    this.#forward(request, response, isWatch);
  }

  #forward(request: IncomingMessage, response: ServerResponse, isWatch: boolean): void {
    const { host: _, connection: __, ...headers } = request.headers;
    const target = new URL(request.url ?? '/', this.#kube.url);
    const outgoing = httpsRequest(target, { agent: this.#agent, headers }, (upstream) => {
      response.writeHead(upstream.statusCode ?? 502, { 'content-type': 'application/json' });
      upstream.on('error', () => response.destroy());
      if (isWatch) this.#pipeWatch(upstream, response);
      else this.#pipeList(upstream, response);
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    outgoing.end();
  }

  #pipeList(upstream: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    upstream.on('data', (chunk: Buffer) => chunks.push(chunk));
    upstream.on('end', () => {
      const body = Buffer.concat(chunks);
      this.#firstList ??= body.toString();
      response.end(body);
    });
  }

  /** In small pieces, one for each turn of the event loop. */
  #pipeWatch(upstream: IncomingMessage, response: ServerResponse): void {
    response.flushHeaders();
    this.#watches.add({ response, upstream });
    upstream.on('data', (chunk: Buffer) => {
      upstream.pause();
      const pour = (from: number): void => {
        if (response.destroyed || response.writableEnded) return;
        if (from >= chunk.length) return void upstream.resume();
        const to = from + 997;
        response.write(chunk.subarray(from, to), () => setImmediate(pour, to));
      };
      pour(0);
    });
    upstream.on('end', () => response.end());
  }
}

const expired = { code: 410, reason: 'Expired', message: 'The resourceVersion is too old.' };
