// A request dispatcher on a plain listener, with routes that repeat what they get, for the tests of this folder.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Answers } from './answers.ts';
import { unauthorized } from '../../core/access/denial.ts';
import { type Caller, personCaller } from '../../core/access/identity.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { systemClock } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { type ApiRoute, type PresentedCredential, route } from '../../core/plane/route.ts';
import { listenPlain } from '../listeners/listeners.ts';
import { Limits } from './limits.ts';
import { answerPlane } from './plane-exchange.ts';
import { RequestDispatcher } from './request-dispatcher.ts';

const kind = { kind: 'Thing', plural: 'things' };
const ada = personCaller('ada', '01');
export const guest: Caller = { user: 'guest', groups: [], via: 'workload' };

/** What the dispatcher did since the last reset, and what its routes are to do. */
export class DispatcherScene {
  /** Of all callers. One gets a quarter. */
  static readonly places = 40;
  failures = 0;
  rights: { name?: string | undefined; user: string }[] = [];
  budget: string[] = [];
  /** Codes of errors that the audit log gets. */
  denials: string[] = [];
  /** What the route's authenticator finds for a credential. */
  readonly guests = new Map<string, () => Caller | undefined | Promise<Caller | undefined>>();
  shown: PresentedCredential[] = [];
  /** Runs in each handler. */
  onHandle: () => void = () => undefined;
  /** Only handlers move it. */
  monotonicMs = 0;
  port = 0;
  readonly #clock = { ...systemClock, monotonic: () => this.monotonicMs };
  #close: (() => Promise<void>) | undefined;

  async start(): Promise<void> {
    const clock = this.#clock;
    const plain = route({
      listener: 'api',
      method: 'POST',
      path: '/plain',
      allow: 'authenticated',
      handle: () => ({ status: 200, contentType: 'text/plain', body: 'plain' }),
    }) as ApiRoute;
    const open = route({
      listener: 'api',
      method: 'GET',
      path: '/open',
      allow: 'public',
      handle: ({ caller }) => ({ status: 200, contentType: 'text/plain', body: caller.user }),
    }) as ApiRoute;
    const bound = [this.#hostBound('/things/here'), this.#hostBound('/things/whole', 100)];
    const routes = [...bound, plain, open];
    const dispatcher = new RequestDispatcher({
      answers: new Answers(clock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 }),
      clock,
      random: new SeededRandom('dispatcher'),
      log: createLog({ clock, sink: { write: () => {} }, level: 'error', format: 'json' }),
      metrics: new MetricsRegistry(),
      resources: undefined as never,
      routes: routes.map((one) => ({
        ...one,
        handle: (exchange, params) => answerPlane(exchange, params, one),
      })),
      authorizer: {
        authorize: ({ user }, { name }) => {
          this.rights.push({ user, name });
          return { allowed: name !== 'forbidden', reason: '' };
        },
        authorizePath: () => ({ allowed: false, reason: '' }),
      },
      mayRecord: ({ user }) => void this.budget.push(user),
      denied: (_, { code }) => void this.denials.push(code),
    });
    const limits = new Limits(
      { maxConcurrentRequests: DispatcherScene.places, maxWatches: 1, requestsPerSecond: 0 },
      clock,
    );
    const listener = await listenPlain(
      { host: '127.0.0.1', port: 0 },
      { maxHeaderBytes: 16_384, maxConnections: 100, requestSeconds: 30 },
      dispatcher.listener(
        {
          find: ({ headers }) => (headers.authorization === 'Bearer ada' ? ada : undefined),
          refusal: () => {
            this.failures += 1;
            return unauthorized('no credential');
          },
          present: ({ request, address, path, params, host, serverName }) => ({
            path,
            params,
            host,
            serverName,
            headers: request.headers,
            address,
            svid: undefined,
            hasCertificate: false,
            connection: request.socket,
          }),
        },
        limits,
      ),
      clock,
    );
    this.port = listener.address.port;
    this.#close = () => listener.close(0);
  }

  async stop(): Promise<void> {
    await this.#close?.();
  }

  reset(): void {
    this.failures = 0;
    this.rights = [];
    this.budget = [];
    this.denials = [];
    this.shown = [];
    this.guests.clear();
    this.onHandle = () => undefined;
  }

  /** With `readsBody`, the site reads the body before the handler runs. */
  #hostBound(path: string, readsBody?: number): ApiRoute {
    return route({
      listener: 'api',
      method: 'POST',
      path,
      allow: 'rights',
      headers: { 'x-said': 'always' },
      rights: [
        {
          verb: 'create',
          kind,
          nameOf: {
            request: ({ host }) => {
              if (host === undefined) throw new HansaError('HANSA_NOT_FOUND', 'which host?');
              return host;
            },
            shown: 'HOST',
          },
        },
      ],
      rowless: true,
      authenticator: {
        who: 'guests',
        authenticate: (presented) => {
          this.shown.push(presented);
          return this.guests.get(String(presented.headers['x-guest']))?.();
        },
      },
      ...(readsBody === undefined ? {} : { readsBody }),
      handle: (request) => {
        const answer = (body: Buffer) => ({
          status: 200,
          contentType: 'text/plain',
          body: `${request.caller.user} ${body.toString()}`,
        });
        this.onHandle();
        if (request.headers['x-fail'] !== undefined)
          throw new HansaError('HANSA_BAD_REQUEST', 'as you wish');
        return readsBody === undefined ? request.body(100).then(answer) : answer(request.content);
      },
    }) as ApiRoute;
  }

  connect(): Socket {
    const socket = connect(this.port, '127.0.0.1');
    socket.setNoDelay(true);
    return socket;
  }

  /** What the site answers to these bytes, which come one after the other, until it ends the connection. */
  async converse(writes: readonly string[]): Promise<string> {
    const socket = this.connect();
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk) => (text += String(chunk)));
    const closed = once(socket, 'close');
    for (const bytes of writes) {
      await new Promise<void>((sent) => {
        socket.write(bytes, () => sent());
      });
      // The site, in this process, reads them before the next ones are sent.
      await turns();
    }
    await closed;
    return text;
  }

  /** The status and body of a request of these lines, with a body as JSON unless they say otherwise. */
  async send(path: string, lines: readonly string[], body = 'hello'): Promise<[number, string]> {
    const isTyped = lines.some((line) => line.startsWith('content-type:'));
    const all = isTyped ? lines : [...lines, 'content-type: application/json'];
    const head = [
      `POST ${path} HTTP/1.1`,
      ...all.filter((line) => line !== 'content-type:'),
      `content-length: ${Buffer.byteLength(body)}`,
    ];
    return statusAndBody(
      await this.converse([`${head.join('\r\n')}\r\nconnection: close\r\n\r\n${body}`]),
    );
  }
}

/** Time for everything that is under way on loopback. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
}

export function statusAndBody(text: string): [number, string] {
  const [head = '', answer = ''] = text.split('\r\n\r\n');
  return [Number(head.split(' ')[1]), answer];
}
