// The listeners of a site: opens them one by one, gives them each new certificate, and closes them together.

import type { RequestListener } from 'node:http';
import type { Clock } from '../../core/clock/clock.ts';
import type { HostCertificates } from '../../core/identity/tls/host-certificates.ts';
import type { SiteCredentials } from '../../core/identity/tls/site-credentials.ts';
import { guardServer, svidServerOptions, swapCertificate } from '../../core/identity/tls/server.ts';
import type { WebCertificate } from '../../core/plane/plane.ts';
import type { AdminCall } from '../../core/plane/stream.ts';
import type { ListenAddress } from '../../core/config/config-values.ts';
import {
  type Listener,
  type ListenerLimits,
  listenPlain,
  listenSocket,
  listenTls,
} from './listeners.ts';
import type { SourceAddresses } from '../http/source-address.ts';
import { OpenStreams, shareConnections } from './stranger-limits.ts';
import { EarlierConnections } from './earlier-connections.ts';
import type { HandshakeBudget } from './handshake-budget.ts';
import { followCertificate, webServerOptions } from './web-listener.ts';

export interface SiteListenersParts {
  readonly clock: Clock;
  readonly limits: ListenerLimits;
  readonly credentials: Pick<SiteCredentials, 'current' | 'onRenewal'>;
  readonly sources: Pick<SourceAddresses, 'before' | 'isProxy'>;
  readonly handshakes: Pick<HandshakeBudget, 'guard'>;
}

type PublicHandler = Parameters<OpenStreams['before']>[0];

export class SiteListeners {
  readonly #parts: SiteListenersParts;
  readonly #open: Listener[] = [];

  constructor(parts: SiteListenersParts) {
    this.#parts = parts;
  }

  /** For users. With `hosts`, a client that asks for one of their names gets its own certificate. */
  async api(
    address: ListenAddress,
    handler: ReturnType<OpenStreams['before']>,
    hosts?: Pick<HostCertificates, 'choose'>,
  ): Promise<Listener> {
    const { limits, sources } = this.#parts;
    const listener = await this.tls(address, sources.before('api', handler), hosts);
    shareConnections(listener.server, limits.maxConnections, sources.isProxy);
    return listener;
  }

  /** For other sites, and for strangers. */
  async federation(address: ListenAddress, handler: PublicHandler): Promise<Listener> {
    const { clock, limits, sources } = this.#parts;
    const bounded = new OpenStreams(clock).before(handler);
    const ending = new EarlierConnections(this.#parts.credentials);
    const listener = await this.tls(
      address,
      sources.before('federation', (request, response) => {
        ending.endAfter(request, response);
        bounded(request, response);
      }),
    );
    ending.follow(listener.server);
    shareConnections(listener.server, limits.maxConnections, sources.isProxy);
    return listener;
  }

  async tls(
    address: ListenAddress,
    handler: Parameters<typeof listenTls>[3],
    hosts?: Pick<HostCertificates, 'choose'>,
  ): ReturnType<typeof listenTls> {
    const { clock, limits, credentials, handshakes, sources } = this.#parts;
    const tlsOptions = {
      ...svidServerOptions(credentials.current),
      ...(hosts && { SNICallback: hosts.choose }),
    };
    const listener = await listenTls(address, tlsOptions, limits, handler, clock, (server) => {
      guardServer(server);
      handshakes.guard(server, sources.isProxy);
    });
    credentials.onRenewal((credential) => swapCertificate(listener.server, credential));
    // The certificate may have been renewed while the listener opened.
    swapCertificate(listener.server, credentials.current);
    this.#open.push(listener);
    return listener;
  }

  async web(
    address: ListenAddress,
    certificate: WebCertificate,
    handler: PublicHandler,
  ): Promise<Listener> {
    const { clock, limits, sources } = this.#parts;
    const listener = await listenTls(
      address,
      webServerOptions(certificate),
      limits,
      sources.before('web', new OpenStreams(clock).before(handler)),
      clock,
    );
    shareConnections(listener.server, limits.maxConnections, sources.isProxy);
    followCertificate(listener.server, certificate);
    this.#open.push(listener);
    return listener;
  }

  async socket(
    path: string,
    handler: RequestListener,
    calls: readonly AdminCall[],
  ): Promise<Listener> {
    const { clock, limits } = this.#parts;
    const listener = await listenSocket(path, limits, handler, clock, calls);
    this.#open.push(listener);
    return listener;
  }

  async plain(address: ListenAddress, handler: RequestListener): Promise<Listener> {
    const listener = await listenPlain(address, this.#parts.limits, handler, this.#parts.clock);
    this.#open.push(listener);
    return listener;
  }

  /** Closes all at once, so that none accepts connections while another drains. */
  async close(withinMs: number): Promise<void> {
    await Promise.all(this.#open.map((listener) => listener.close(withinMs)));
  }
}

export function urlOf(scheme: string, listener: Listener): string {
  const { host, port } = listener.address;
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
