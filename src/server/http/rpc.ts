// gRPC on the TLS port that HTTP shares (PROTOCOL-HTTP2): HTTP/2 streams with the content type
// application/grpc. Messages are bytes here. Does not use grpc-js, which hides the connection and with
// it the TLS exporter.

import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Stream } from 'node:http2';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import {
  type Directories,
  type FederationCheck,
  federationCheck,
} from '../../core/plane/route-access.ts';
import type { PlaneRpc } from '../../core/plane/stream.ts';
import {
  encodeStatusMessage,
  parseTimeout,
  rpcStatus,
  rpcStatusOf,
} from '../../core/rpc/status.ts';
import type { Release } from '../listeners/stranger-limits.ts';
import type { Request, Response } from './exchange.ts';
import { beginAnswer, RpcCall } from './rpc-call.ts';

export interface RpcDispatcherParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly rpcs: readonly PlaneRpc[];
  readonly directories: Directories;
  /** The SVID of the connection, if the site trusts it now. */
  readonly svidOf: (request: Request) => ValidatedSvid | undefined;
  /** Takes a place for a known caller or a stranger, or throws. The result releases it. */
  readonly enter: (
    request: Request,
    svid: ValidatedSvid | undefined,
    allow: PlaneRpc['allow'],
  ) => () => void;
  /** Called for calls that were rejected or took too long, with the SVID of an authenticated caller. */
  readonly refused: (
    request: Request,
    path: string,
    error: HansaError,
    svid: ValidatedSvid | undefined,
  ) => void;
}

const noMethod = 'none';
const limits: ReadonlySet<string> = new Set([
  'HANSA_TOO_MANY_REQUESTS',
  'HANSA_TOO_LARGE',
  'HANSA_TIMEOUT',
]);
const lingerMs = 1_000;
/** Trust can end with time, and wall time can jump, so the site checks callers at least this often. */
const judgeEveryMs = 60_000;
/** Longest time to check callers before other tasks run. */
const judgeAtOnceMs = 5;
/** Denials of callers that must be known, for the audit log. */
const denials: ReadonlySet<string> = new Set(['HANSA_FORBIDDEN', 'HANSA_UNAUTHENTICATED']);

/** application/grpc with or without a message format, but not application/grpc-web. */
export function isRpc(request: Request): boolean {
  const type = request.headers['content-type'];
  return type !== undefined && /^application\/grpc(?:[+;]|$)/.test(type);
}

interface Method {
  readonly rpc: PlaneRpc;
  /** Undefined for a public method. */
  readonly check: FederationCheck | undefined;
}

export class RpcDispatcher {
  readonly #parts: RpcDispatcherParts;
  readonly #methods: ReadonlyMap<string, Method>;
  /** Open calls with an authenticated caller. Per process: each replica ends the calls that it serves. */
  readonly #known = new Set<RpcCall>();
  /** The calls of agents among them, by name. */
  readonly #ofAgents = new Map<string, Set<RpcCall>>();
  /** How often a check of all callers was requested, and how many of them are done. */
  readonly #judgements = { requested: 0, done: 0 };
  readonly #stops: (() => void)[] = [];
  readonly #calls;

  constructor(parts: RpcDispatcherParts) {
    this.#parts = parts;
    const { rpcs, directories } = parts;
    this.#methods = new Map(
      rpcs.map((rpc) => [rpc.path, { rpc, check: federationCheck(rpc, directories) }]),
    );
    if (this.#methods.size < rpcs.length) throw new Error('two methods have the same path');
    for (const allow of ['peer', 'agent'] as const) {
      const directory = allow === 'peer' ? directories.peers : directories.agents;
      if (directory === undefined || !rpcs.some((rpc) => rpc.allow === allow)) continue;
      this.#stops.push(
        directory.onChange((agents?: readonly string[]) => {
          if (agents === undefined) void this.#judgeAll();
          else this.#judgeAgents(agents);
        }),
      );
    }
    this.#calls = parts.metrics.counter({
      name: 'hansa_federation_rpcs_total',
      help: 'gRPC calls on the federation listener, by method and gRPC status.',
      labels: ['method', 'code'],
    });
  }

  /** `release` is for calls of known callers, which count against their own limit and may last long. */
  readonly listener = (request: Request, response: Response, release?: Release): void => {
    if (request.httpVersionMajor !== 2) {
      // gRPC needs HTTP/2.
      response.statusCode = 505;
      response.setHeader('connection', 'close');
      response.end();
      return;
    }
    void this.#serve(request as Http2ServerRequest, response as Http2ServerResponse, release);
  };

  /** Never rejects. */
  async #serve(
    request: Http2ServerRequest,
    response: Http2ServerResponse,
    release: Release | undefined,
  ): Promise<void> {
    const path = request.url;
    const method = this.#methods.get(path);
    const name = method === undefined ? noMethod : path;
    let known: ValidatedSvid | undefined;
    let leave: (() => void) | undefined;
    let status: { readonly code: number; readonly message: string } = {
      code: rpcStatus.ok,
      message: '',
    };
    try {
      known = method?.check === undefined ? undefined : this.#parts.svidOf(request);
      leave = this.#parts.enter(request, known, method?.rpc.allow ?? 'public');
      if (request.method !== 'POST' || method === undefined) {
        throw new HansaError('HANSA_METHOD_NOT_ALLOWED', `This site has no gRPC method ${name}.`);
      }
      refuseEncoding(request);
      await this.#call(request, response, method, release);
    } catch (caught) {
      const error = toHansaError(caught);
      if (error.code === 'HANSA_INTERNAL') {
        this.#parts.log.error('gRPC call failed', { error: error.cause, method: name });
      }
      // A public method records its denials itself.
      const isRefused = method?.check !== undefined && denials.has(error.code);
      if (isRefused || limits.has(error.code)) this.#parts.refused(request, name, error, known);
      status = rpcStatusOf(error);
    }
    leave?.();
    this.#calls.add({ method: name, code: String(status.code) });
    end(request, response, status, this.#parts.clock);
  }

  async #call(
    request: Http2ServerRequest,
    response: Http2ServerResponse,
    { rpc, check }: Method,
    release: Release | undefined,
  ): Promise<void> {
    const { clock } = this.#parts;
    const over = new AbortController();
    const call = new RpcCall(request, response, {
      ...rpc,
      clock,
      over,
      svid: () => this.#parts.svidOf(request),
      check,
    });
    const timers: Timer[] = [];
    let stopJudging: (() => void) | undefined;
    let countAgain: (() => void) | undefined;
    const asked = parseTimeout(headerOf(request, 'grpc-timeout') ?? '');
    if (asked !== undefined) {
      const late = new HansaError('HANSA_TIMEOUT', 'The call took longer than its caller allows.');
      timers.push(clock.timer(asked, () => call.end(late)));
    }
    const gone = (): void =>
      call.end(new HansaError('HANSA_UNAVAILABLE', 'The caller ended the call.'));
    request.once('close', gone);
    request.once('error', gone);
    try {
      call.authorize();
      if (check !== undefined) {
        this.#add(call, rpc);
        stopJudging = this.#judgeInTime(call);
        countAgain = release?.(request);
      }
      await Promise.race([rpc.handle(call), whenAborted(over.signal)]);
    } finally {
      for (const timer of timers) timer.cancel();
      stopJudging?.();
      countAgain?.();
      call.stop();
      this.#delete(call, rpc);
      request.removeListener('close', gone);
    }
  }

  #add(call: RpcCall, { allow }: PlaneRpc): void {
    this.#known.add(call);
    if (allow !== 'agent') return;
    const { name } = call.agent;
    const calls = this.#ofAgents.get(name) ?? new Set();
    this.#ofAgents.set(name, calls.add(call));
  }

  #delete(call: RpcCall, { allow }: PlaneRpc): void {
    if (!this.#known.delete(call) || allow !== 'agent') return;
    const { name } = call.agent;
    const calls = this.#ofAgents.get(name);
    calls?.delete(call);
    if (calls?.size === 0) this.#ofAgents.delete(name);
  }

  /** Each agent renews its SVID often, which must not cost a check of all agents. */
  #judgeAgents(names: readonly string[]): void {
    for (const name of names) for (const call of this.#ofAgents.get(name) ?? []) call.judge();
  }

  /** Lets others run in between: after a rotation, each check verifies signatures (0.1 ms). */
  async #judgeAll(): Promise<void> {
    const { clock } = this.#parts;
    const judgements = this.#judgements;
    const isRunning = judgements.done < judgements.requested++;
    if (isRunning) return;
    while (judgements.done < judgements.requested) {
      const upTo = judgements.requested;
      let untilMs = clock.monotonic() + judgeAtOnceMs;
      for (const call of this.#known) {
        call.judge();
        if (clock.monotonic() < untilMs) continue;
        await yieldToEventLoop();
        untilMs = clock.monotonic() + judgeAtOnceMs;
      }
      judgements.done = upTo;
    }
  }

  /** Checks the caller when its certificate expires, and regularly before. The result stops this. */
  #judgeInTime(call: RpcCall): () => void {
    const { clock } = this.#parts;
    const { notAfterMs } = call.svid ?? { notAfterMs: 0 };
    let timer: Timer;
    const wait = (): void => {
      // One millisecond after `notAfter`.
      const leftMs = Math.max(1, notAfterMs - clock.now() + 1);
      timer = clock.timer(Math.min(leftMs, judgeEveryMs), () => {
        call.judge();
        if (!call.signal.aborted) wait();
      });
    };
    wait();
    return () => timer.cancel();
  }

  /** Ends the calls of authenticated callers, which then reconnect. */
  drain(): void {
    for (const stop of this.#stops.splice(0)) stop();
    for (const call of this.#known) {
      call.end(new HansaError('HANSA_UNAVAILABLE', 'The site is stopping. Call again.'));
    }
  }
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    else signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

/** compression.md: rejects an unsupported encoding with UNIMPLEMENTED and lists the accepted ones. */
function refuseEncoding(request: Request): void {
  const encoding = headerOf(request, 'grpc-encoding');
  if (encoding !== undefined && encoding !== 'identity') {
    throw new HansaError(
      'HANSA_METHOD_NOT_ALLOWED',
      'This site accepts only messages with the encoding identity.',
    );
  }
}

function headerOf(request: Request, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === 'string' ? value : undefined;
}

function end(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  { code, message }: { readonly code: number; readonly message: string },
  clock: Clock,
): void {
  if (response.stream.destroyed || response.writableEnded) return;
  beginAnswer(response);
  response.addTrailers({
    'grpc-status': String(code),
    ...(message === '' ? {} : { 'grpc-message': encodeStatusMessage(message) }),
  });
  if (!request.complete) closeLater(response.stream, clock);
  response.end();
}

/**
 * Callers end their half of the stream after the status. If a caller does not, the site closes the
 * stream without an error. It waits before that, because nghttp2 would send the reset before the
 * status.
 */
function closeLater(stream: ServerHttp2Stream, clock: Clock): void {
  const timer = clock.timer(lingerMs, () => stream.close());
  stream.once('close', () => timer.cancel());
}
