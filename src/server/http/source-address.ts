// Where a request comes from: the address of the connection, or behind a trusted proxy the address in
// X-Forwarded-For. Limits, grants, joins and the audit log read the address only from here.

import type { TLSSocket } from 'node:tls';
import { HansaError } from '../../core/errors/error.ts';
import type { Prefix } from '../../api/values/prefix.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { presentsCertificate } from '../../core/identity/tls/peer-chain.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Request, Response } from './exchange.ts';
import { forwardedSource, plainAddress } from './forwarded-for.ts';
import { httpStatusOf, statusOf } from './status.ts';
import { abandonBody, isBeyondLastAnswer } from './unread-body.ts';

/** Set once per request, before anything reads it. */
const source = Symbol('hansa.source');

type Known = Request & { [source]?: string };

/** Undefined on a Unix socket, and for a stream that was reset. */
export function addressOf(request: Request): string | undefined {
  return (request as Known)[source] ?? connectionAddress(request);
}

function connectionAddress(request: Request): string | undefined {
  const address = request.socket?.remoteAddress;
  return address === undefined ? undefined : plainAddress(address);
}

export type ListenerName = 'api' | 'federation' | 'web';

export interface SourceAddressesParts {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Proxies whose X-Forwarded-For counts. */
  readonly proxies: readonly Prefix[];
  /** Records a header that was ignored or refused, with the address of the connection. */
  readonly denied: (listener: ListenerName, address: string, error: HansaError) => void;
}

/** What proxies use to tell the address of their client. Only the first is ever read. */
const forwardingHeaders = ['x-forwarded-for', 'forwarded', 'x-real-ip'] as const;
/** Proxies have few addresses. */
const maxVerdicts = 1024;

type Handler = (request: Request, response: Response) => void;

export class SourceAddresses {
  readonly #parts: SourceAddressesParts;
  readonly #headers;
  /** Whether an address is that of a proxy. */
  readonly #verdicts = new Map<string, boolean>();

  constructor(parts: SourceAddressesParts) {
    this.#parts = parts;
    this.#headers = parts.metrics.counter({
      name: 'hansa_forwarded_headers_total',
      help: 'Requests with X-Forwarded-For or a similar header, by listener and result: used, ignored (not from a trusted proxy, or over TLS with a client certificate), refused (not readable).',
      labels: ['listener', 'result'],
    });
  }

  readonly isProxy = (address: string): boolean => {
    const { proxies } = this.#parts;
    if (proxies.length === 0) return false;
    let verdict = this.#verdicts.get(address);
    if (verdict === undefined) {
      verdict = proxies.some((proxy) => proxy.contains(address));
      if (this.#verdicts.size >= maxVerdicts) this.#verdicts.clear();
      this.#verdicts.set(address, verdict);
    }
    return verdict;
  };

  /** Determines the source of each request before `handler` gets it. Answers 400 where it cannot. */
  before(listener: ListenerName, handler: Handler): Handler {
    return (request, response) => {
      const { headers } = request;
      // Almost no request has one of them.
      if (!forwardingHeaders.some((name) => headers[name] !== undefined)) {
        handler(request, response);
        return;
      }
      if (isBeyondLastAnswer(request)) return;
      const connection = connectionAddress(request) ?? '';
      try {
        this.#headers.add({ listener, result: this.#read(listener, request, connection) });
      } catch (error) {
        if (!(error instanceof HansaError)) throw error;
        this.#headers.add({ listener, result: 'refused' });
        this.#parts.denied(listener, connection, error);
        this.#refuse(request, response, error);
        return;
      }
      handler(request, response);
    };
  }

  #read(listener: ListenerName, request: Request, connection: string): 'used' | 'ignored' {
    if (!this.isProxy(connection)) {
      this.#parts.denied(listener, connection, notListed);
      return 'ignored';
    }
    // The web listener asks for no certificate.
    if (listener !== 'web' && presentsCertificate(request.socket as TLSSocket)) {
      this.#parts.denied(listener, connection, endToEnd);
      return 'ignored';
    }
    const given = request.headers['x-forwarded-for'];
    if (given === undefined) return 'ignored';
    const header = Array.isArray(given) ? given.join(',') : given;
    (request as Known)[source] = forwardedSource(header, this.isProxy);
    return 'used';
  }

  #refuse(request: Request, response: Response, error: HansaError): void {
    response.statusCode = httpStatusOf(error);
    response.setHeader('content-type', 'application/json');
    if (!request.complete) abandonBody(request, response, this.#parts.clock);
    response.end(JSON.stringify(statusOf(error)));
  }
}

const notListed = new HansaError(
  'HANSA_FORBIDDEN',
  'The client sent a header with the address of another client, and it is not a proxy in federation.trustedProxies. The site ignored the header.',
);

/** A proxy that ends TLS does not have the private key of its client, so it cannot present this certificate. */
const endToEnd = new HansaError(
  'HANSA_FORBIDDEN',
  'The client sent a header with the address of another client over TLS with a client certificate. The proxy in federation.trustedProxies passed this TLS through and cannot have written the header. The site ignored the header.',
);
