// Test fixture: TLS servers on loopback that play an API server, good or hostile.

import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server, Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions, type TLSSocket } from 'node:tls';
import { systemClock } from '../clock/system.ts';
import { certificatePem } from '../identity/x509/pem.ts';
import { credentialOf, forge, type Forged, purposes } from '../identity/x509/test-forge.ts';
import { HttpKubeClient, type HttpKubeClientOptions } from './http-kube-client.ts';
import type { KubeCredential, KubeEndpoint } from './kube-client.ts';

export const testAuthority = forge({ ca: true });
export const testCa = certificatePem(testAuthority.der);
export const testLeaf = (
  issuer: Forged,
  dnsNames: readonly string[] = ['localhost'],
  extra: object = {},
): Forged => forge({ issuer, ca: false, dnsNames, purposes: [purposes.server], ...extra });

const serverLeaf = testLeaf(testAuthority);

export interface TestServer {
  readonly server: Server;
  readonly endpoint: KubeEndpoint;
  /** Of all connections so far. */
  readonly sockets: readonly Socket[];
  stop(): Promise<void>;
}

const running = new Set<TestServer>();

/** Ends all servers of a test file. */
export async function stopServers(): Promise<void> {
  for (const server of running) await server.stop();
}

/** An HTTPS server. */
export function serve(
  handler: RequestListener,
  options: TlsOptions & { readonly leaf?: Forged } = {},
): Promise<TestServer> {
  return listen(createHttpsServer({ ...identityOf(options.leaf), ...options }, handler));
}

/** A TLS server that need not speak HTTP. */
export function serveBytes(handler: (socket: TLSSocket) => void): Promise<TestServer> {
  const server = createTlsServer(identityOf(undefined), (socket) => {
    socket.on('error', () => undefined);
    handler(socket);
  });
  return listen(server);
}

function identityOf(leaf = serverLeaf): TlsOptions {
  const { certificateChain, privateKey } = credentialOf(leaf);
  return { cert: certificateChain, key: privateKey };
}

export async function listen(server: Server): Promise<TestServer> {
  const sockets: Socket[] = [];
  server.on('connection', (socket: Socket) => sockets.push(socket));
  server.listen(0, 'localhost');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const test: TestServer = {
    server,
    endpoint: { server: new URL(`https://localhost:${port}`), caBundle: testCa },
    sockets,
    stop: async () => {
      running.delete(test);
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
  running.add(test);
  return test;
}

export const testToken: KubeCredential = { type: 'token', token: 'secret-token' };

/** A client with the system's clock. */
export function clientOf(
  { endpoint }: Pick<TestServer, 'endpoint'>,
  options: Partial<HttpKubeClientOptions> = {},
): HttpKubeClient {
  return new HttpKubeClient({
    endpoint,
    credentials: { current: () => testToken },
    clock: systemClock,
    ...options,
  });
}
