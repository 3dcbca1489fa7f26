// Opens one verified TLS connection to an API server, directly or through an HTTP proxy. The
// connection is handed out after the server's certificate was verified, so a request and its token
// never reach another server.

import { request as httpRequest } from 'node:http';
import { isIP, type Socket } from 'node:net';
import { connect, type SecureContext, type TLSSocket } from 'node:tls';
import type { Clock } from '../clock/clock.ts';
import { linkedSignal } from '../clock/linked-signal.ts';
import { HansaError } from '../errors/error.ts';
import { inWords } from '../identity/tls/connect-failure.ts';
import { dial } from '../identity/tls/dial.ts';
import { pemCertificates, webContext, WebJudge } from '../identity/tls/web-transport.ts';
import type { KubeCredential, KubeEndpoint } from './kube-client.ts';
import { unreachable, unreachableBy } from './kube-errors.ts';

/** For the lookup, the proxy and the handshake together. */
const connectWithinMs = 10_000;
/** A proxy needs a few hundred bytes. */
const maxProxyHeaderBytes = 16 * 1024;
/** Finds a peer that vanished, and keeps the entries of firewalls on the way. */
const keepAliveMs = 30_000;

export interface OpenOptions {
  readonly endpoint: KubeEndpoint;
  /** Of `kubeContext`. */
  readonly context: SecureContext;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Throws a TypeError that says why an endpoint cannot be used. */
export function checkEndpoint({ server, proxyURL }: KubeEndpoint): void {
  if (server.protocol !== 'https:') throw new TypeError('the URL of the API server is not https');
  if (server.username !== '' || server.password !== '') {
    throw new TypeError('the URL of the API server contains a user or a password');
  }
  if (server.search !== '' || server.hash !== '') {
    throw new TypeError('the URL of the API server contains a query or a fragment');
  }
  if (proxyURL === undefined) return;
  if (proxyURL.protocol !== 'http:' && proxyURL.protocol !== 'https:') {
    throw new TypeError('the URL of the proxy is neither http nor https');
  }
  if (proxyURL.username !== '' || proxyURL.password !== '') {
    throw new TypeError('the URL of the proxy contains a user or a password');
  }
}

/** Throws HANSA_CERTIFICATE_INVALID for an unusable CA bundle, and HANSA_UNAVAILABLE for a credential. */
export function kubeContext(
  { server, caBundle }: KubeEndpoint,
  credential: Extract<KubeCredential, { type: 'certificate' }> | undefined,
): SecureContext {
  // OpenSSL ignores text without certificates, and would then trust no server.
  if (caBundle !== undefined) checkAuthorities(server.host, caBundle);
  try {
    return webContext(
      { caBundle },
      credential && { certificateChain: credential.certificate, privateKey: credential.key },
    );
  } catch (cause) {
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot use the client certificate for ${server.host}: the certificate or its key cannot be read, or they do not belong together.`,
      { cause },
    );
  }
}

function checkAuthorities(where: string, pem: string): void {
  try {
    pemCertificates(pem);
  } catch (cause) {
    throw new HansaError(
      'HANSA_CERTIFICATE_INVALID',
      `Cannot use the CA of the API server ${where}: ${(cause as Error).message}.`,
      { cause },
    );
  }
}

/**
 * Rejects with HANSA_UNREACHABLE, HANSA_CERTIFICATE_INVALID, or the reason of the signal. Nothing
 * outlives a rejected call.
 */
export async function openConnection({
  endpoint,
  context,
  clock,
  signal: over,
}: OpenOptions): Promise<TLSSocket> {
  const { server, tlsServerName, proxyURL } = endpoint;
  const late = new AbortController();
  const timer = clock.timer(connectWithinMs, () => {
    const why = `it did not answer within ${connectWithinMs} ms`;
    late.abort(unreachable(server.host, 'timeout', why));
  });
  const { signal, unlink } = linkedSignal(late.signal, over);
  const host = hostOf(server);
  try {
    const socket =
      proxyURL === undefined
        ? await dial({ host, port: portOf(server), clock, timeoutMs: connectWithinMs, signal })
        : await throughProxy(proxyURL, server, clock, signal);
    socket.setKeepAlive(true, keepAliveMs);
    // Requests are written at once; waiting for more of them only delays the last bytes.
    socket.setNoDelay(true);
    const judge = new WebJudge({ caBundle: endpoint.caBundle, pinnedKeys: [] }, () => clock.now());
    return await shakeHands(socket, tlsServerName ?? host, context, judge, signal);
  } catch (caught) {
    if (signal.aborted) throw signal.reason;
    if (!(caught instanceof HansaError)) throw unreachableBy(server.host, caught as Error);
    if (caught.code !== 'HANSA_CERTIFICATE_INVALID') throw caught;
    throw new HansaError(caught, `Cannot trust the API server ${server.host}. ${caught.message}`, {
      cause: caught,
      ...(caught.details && { details: caught.details }),
    });
  } finally {
    timer.cancel();
    unlink();
  }
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '');
}

function portOf({ port, protocol }: URL): number {
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
}

function shakeHands(
  raw: Socket,
  name: string,
  secureContext: SecureContext,
  judge: WebJudge,
  signal: AbortSignal,
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      socket: raw,
      // The name that the certificate must have.
      host: name,
      // Addresses are no server names (RFC 6066 §3).
      ...(isIP(name) === 0 && { servername: name }),
      secureContext,
      ALPNProtocols: ['http/1.1'],
      // The judge below rejects, with a text that says which rule was broken.
      rejectUnauthorized: false,
      checkServerIdentity: judge.check,
    });
    const settle = (act: () => void): void => {
      signal.removeEventListener('abort', onAbort);
      socket.off('error', fail);
      socket.off('close', onClose);
      // An error of a socket without a listener would end the process; `close` follows each.
      socket.on('error', () => undefined);
      act();
    };
    const fail = (error: unknown): void =>
      settle(() => {
        socket.destroy();
        raw.destroy();
        reject(error);
      });
    const onAbort = (): void => fail(signal.reason);
    const onClose = (): void =>
      fail(Object.assign(new Error('it closed the connection'), { code: 'ECONNRESET' }));
    socket.on('error', fail);
    socket.on('close', onClose);
    signal.addEventListener('abort', onAbort, { once: true });
    socket.once('secureConnect', () => {
      try {
        judge.judge(socket);
      } catch (refusal) {
        fail(refusal);
        return;
      }
      settle(() => resolve(socket));
    });
    if (signal.aborted) onAbort();
  });
}

/** RFC 9110 §9.3.6. The proxy resolves the name of the server. */
async function throughProxy(
  proxy: URL,
  server: URL,
  clock: Clock,
  signal: AbortSignal,
): Promise<Socket> {
  const host = hostOf(proxy);
  const failed = (why: string, cause?: unknown): HansaError =>
    unreachable(server.host, 'proxy', `the proxy ${proxy.origin} ${why}`, cause);
  try {
    const port = portOf(proxy);
    const plain = await dial({ host, port, clock, timeoutMs: connectWithinMs, signal });
    const isSecure = proxy.protocol === 'https:';
    const judge = new WebJudge({ caBundle: undefined, pinnedKeys: [] }, () => clock.now());
    const context = isSecure ? webContext({ caBundle: undefined }) : undefined;
    const socket = context ? await shakeHands(plain, host, context, judge, signal) : plain;
    const target = `${server.hostname}:${portOf(server)}`;
    return await tunnel(socket, target, signal, failed);
  } catch (caught) {
    if (signal.aborted || (caught instanceof HansaError && caught.code === 'HANSA_UNREACHABLE')) {
      throw caught;
    }
    const { message } = caught as Error;
    if (caught instanceof HansaError) throw failed(`is not trusted. ${message}`, caught);
    throw failed(`does not answer (${inWords(caught as Error)})`, caught);
  }
}

function tunnel(
  socket: Socket,
  target: string,
  signal: AbortSignal,
  failed: (why: string) => HansaError,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void): void => {
      signal.removeEventListener('abort', onAbort);
      act();
    };
    const fail = (error: unknown): void =>
      settle(() => {
        socket.destroy();
        reject(error);
      });
    const onAbort = (): void => fail(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const out = httpRequest({
      createConnection: () => socket,
      method: 'CONNECT',
      path: target,
      headers: { host: target },
      maxHeaderSize: maxProxyHeaderBytes,
    });
    out.on('error', fail);
    out.once('connect', ({ statusCode = 0 }, connected, head) => {
      if (statusCode < 200 || statusCode > 299) fail(failed(`answered ${statusCode}`));
      // A TLS server does not speak first.
      else if (head.length > 0) fail(failed('sent bytes of its own'));
      else settle(() => resolve(connected));
    });
    out.end();
    if (signal.aborted) onAbort();
  });
}
