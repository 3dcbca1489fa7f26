// A client that sends exactly the given bytes and returns exactly the received ones. The tests compare
// two servers byte by byte, so it never corrects, retries or decodes.

import {
  type ClientRequest,
  type IncomingMessage,
  Agent as PlainAgent,
  request as plainRequest,
} from 'node:http';
import { Agent, request } from 'node:https';

export interface WireRequest {
  readonly method: string;
  /** With its query string. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface WireAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly bytes: Buffer;
}

export interface WireTarget {
  readonly url: string;
  readonly ca: string;
  readonly token: string;
}

/** A watch is read until this much time passed without an event; both servers push at once. */
const ANSWER_WITHIN_MS = 60_000;

export class WireClient {
  readonly target: WireTarget;
  readonly #agent: Agent | PlainAgent;
  readonly #request: typeof request;

  constructor(target: WireTarget) {
    this.target = target;
    const shared = { keepAlive: true, maxSockets: 64 };
    if (target.url.startsWith('http:')) {
      this.#agent = new PlainAgent(shared);
      this.#request = plainRequest;
      return;
    }
    this.#request = request;
    this.#agent = new Agent({
      ...shared,
      ca: target.ca,
      // The serving SVID of a site need not name the address that the test reached it by.
      checkServerIdentity: () => undefined,
    });
  }

  /** JSON is the default content type of a body, as with kubectl. */
  send(wanted: WireRequest): Promise<WireAnswer> {
    return new Promise((resolve, reject) => {
      const outgoing = this.#open(wanted, (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.once('error', reject);
        incoming.once('end', () => {
          const bytes = Buffer.concat(chunks);
          resolve({
            status: incoming.statusCode ?? 0,
            headers: incoming.headers,
            text: bytes.toString('utf8'),
            bytes,
          });
        });
      });
      // Not once: a server that refuses a body half way causes more than one.
      outgoing.on('error', reject);
      outgoing.setTimeout(ANSWER_WITHIN_MS, () =>
        outgoing.destroy(new Error(`no answer to ${wanted.method} ${wanted.path}`)),
      );
      outgoing.end(wanted.body);
    });
  }

  /** Opens a watch. Resolves with the first answer; events are handed on line by line. */
  watch(
    wanted: WireRequest,
    onLine: (line: string) => void,
  ): Promise<{ readonly status: number; stop(): void; readonly ended: Promise<void> }> {
    return new Promise((resolve, reject) => {
      const outgoing = this.#open(wanted, (incoming) => {
        let rest = '';
        incoming.setEncoding('utf8');
        incoming.on('data', (chunk: string) => {
          const lines = (rest + chunk).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) onLine(line);
        });
        const ended = new Promise<void>((resolveEnd) => {
          incoming.once('close', () => {
            if (rest !== '') onLine(rest);
            resolveEnd();
          });
          incoming.once('error', () => resolveEnd());
        });
        resolve({ status: incoming.statusCode ?? 0, stop: () => outgoing.destroy(), ended });
      });
      outgoing.on('error', reject);
      outgoing.end(wanted.body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }

  #open(wanted: WireRequest, onAnswer: (incoming: IncomingMessage) => void): ClientRequest {
    const { hostname, port } = new URL(this.target.url);
    const body = wanted.body;
    return this.#request(
      {
        hostname,
        port,
        method: wanted.method,
        path: wanted.path,
        agent: this.#agent,
        headers: {
          accept: 'application/json',
          authorization: `Bearer ${this.target.token}`,
          'user-agent': 'oracle-test',
          ...(body === undefined
            ? {}
            : {
                'content-type': 'application/json',
                'content-length': Buffer.byteLength(body),
              }),
          ...wanted.headers,
        },
      },
      onAnswer,
    );
  }
}
