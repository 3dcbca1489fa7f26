// TLS clients that expect a server by SPIFFE ID. They verify the server's chain against the bundle of
// its trust domain before they return the connection, so that no byte of a request reaches another
// server.

import { isIP } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import type { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { Clock } from '../../clock/clock.ts';
import { HansaError } from '../../errors/error.ts';
import type { BundleSource } from '../bundle/bundle.ts';
import { inWords } from './connect-failure.ts';
import { dial, isLate } from './dial.ts';
import { readPeerChain } from './peer-chain.ts';
import { refuse } from '../x509/rules.ts';
import { type ValidatedSvid, validateChain } from '../x509/svid-validator.ts';
import { contextOptionsOf, type TlsCredential } from './options.ts';

const defaultTimeoutMs = 10_000;

export interface SvidConnectOptions {
  readonly host: string;
  readonly port: number;
  /** The expected server. */
  readonly expected: SpiffeId;
  readonly bundles: BundleSource;
  readonly clock: Clock;
  /** Our own SVID. Without it, the client presents no certificate. */
  readonly credential?: TlsCredential;
  readonly alpnProtocols?: readonly string[];
  /** Timeout until the server is verified. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface SvidConnection {
  readonly socket: TLSSocket;
  readonly server: ValidatedSvid;
}

/**
 * Rejects with HANSA_CERTIFICATE_INVALID where the server is not the expected one, HANSA_UNREACHABLE
 * where none answers, and HANSA_TIMEOUT.
 */
export async function connectSvid(options: SvidConnectOptions): Promise<SvidConnection> {
  const { host, port, expected, bundles, clock, signal } = options;
  const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
  const where = `${host}:${port}`;
  const startedMs = clock.monotonic();
  const late = (): HansaError =>
    new HansaError(
      'HANSA_TIMEOUT',
      `Cannot connect to ${where}: it did not complete the TLS handshake within ${timeoutMs} ms.`,
    );
  const dialled = await dial({ host, port, clock, timeoutMs, signal }).catch((cause: unknown) => {
    if (signal?.aborted === true) throw cause;
    if (isLate(cause)) throw late();
    const why = inWords(cause as Error);
    throw new HansaError('HANSA_UNREACHABLE', `Cannot connect to ${where}: ${why}.`, { cause });
  });
  return await new Promise((resolve, reject) => {
    const socket = connect({
      socket: dialled,
      ...contextOptionsOf(options.credential),
      // Addresses are no server names (RFC 6066 §3).
      ...(isIP(host) === 0 && { servername: host }),
      // OpenSSL has no roots here. The validator below verifies the chain.
      rejectUnauthorized: false,
      ...(options.alpnProtocols && { ALPNProtocols: [...options.alpnProtocols] }),
    });
    const settle = (): void => {
      timer.cancel();
      signal?.removeEventListener('abort', onAbort);
      socket.removeListener('error', onError);
      socket.removeListener('close', onClose);
    };
    const fail = (error: unknown): void => {
      settle();
      // Ignore later errors of a closed socket.
      socket.on('error', () => {});
      socket.destroy();
      reject(error);
    };
    const unreachable = (why: string, cause?: unknown): void =>
      fail(new HansaError('HANSA_UNREACHABLE', `Cannot connect to ${where}: ${why}.`, { cause }));
    const onError = (cause: Error): void => unreachable(inWords(cause), cause);
    const onClose = (): void => unreachable('it closed the connection during the handshake');
    const onAbort = (): void => fail(signal?.reason);
    const spentMs = clock.monotonic() - startedMs;
    const timer = clock.timer(timeoutMs - spentMs, () => fail(late()));
    signal?.addEventListener('abort', onAbort, { once: true });
    socket.once('error', onError);
    socket.once('close', onClose);
    socket.once('secureConnect', () => {
      try {
        const server = verifyServer(socket, expected, bundles, clock.now());
        settle();
        resolve({ socket, server });
      } catch (caught) {
        fail(caught);
      }
    });
  });
}

function verifyServer(
  socket: TLSSocket,
  expected: SpiffeId,
  bundles: BundleSource,
  nowMs: number,
): ValidatedSvid {
  const server = validateChain(readPeerChain(socket), bundles, nowMs);
  if (!server.id.equals(expected)) {
    throw refuse(
      'expected-id',
      `the server is ${server.id.toString()}, not ${expected.toString()} as expected`,
    );
  }
  return server;
}
