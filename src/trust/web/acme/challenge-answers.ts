// Answers ACME challenges: with a certificate on the web listener (TLS-ALPN-01, RFC 8737), or with a file
// over plain HTTP (HTTP-01, RFC 8555 §8.3). The site serves nothing else without TLS, and this only while
// a challenge is open.

import { createServer, type Server } from 'node:http';
import type { Clock, Random } from '../../../core/clock/clock.ts';
import { HansaError } from '../../../core/errors/error.ts';
import { exportPkcs8, generateP256 } from '../../../core/identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../../../core/identity/x509/pem.ts';
import type { WebCertificateKeeper } from '../certificate-keeper.ts';
import { challengeCertificate } from './certificate-request.ts';

export interface ChallengeAnswer {
  readonly type: 'tls-alpn-01' | 'http-01';
  /** Answers the challenge until the returned function is called. */
  open(dnsName: string, token: string, keyAuthorization: string): Promise<() => Promise<void>>;
}

export function tlsAlpnAnswer(
  keeper: Pick<WebCertificateKeeper, 'openChallenge' | 'closeChallenge'>,
  around: { readonly clock: Clock; readonly random: Random },
): ChallengeAnswer {
  return {
    type: 'tls-alpn-01',
    open: async (dnsName, _token, keyAuthorization) => {
      const key = await generateP256(around.random);
      const der = challengeCertificate(dnsName, keyAuthorization, key, around.clock.now());
      keeper.openChallenge(dnsName, {
        certificateChain: certificatePem(der),
        privateKey: privateKeyPem(exportPkcs8(key)),
      });
      return async () => keeper.closeChallenge(dnsName);
    },
  };
}

const wellKnown = '/.well-known/acme-challenge/';
/** Servers look from a handful of places at once; everybody else can wait. */
const maxConnections = 64;
const requestMs = 10_000;

export function httpAnswer(address: {
  readonly host: string;
  readonly port: number;
}): ChallengeAnswer {
  return {
    type: 'http-01',
    open: async (_dnsName, token, keyAuthorization) => {
      const path = `${wellKnown}${token}`;
      const server = createServer(
        {
          maxHeaderSize: 8192,
          headersTimeout: requestMs,
          requestTimeout: requestMs,
          connectionsCheckingInterval: 2_000,
        },
        (request, response) => {
          const found = request.url === path && /^(?:GET|HEAD)$/.test(request.method ?? '');
          response.writeHead(found ? 200 : 404, {
            'content-type': found ? 'application/octet-stream' : 'text/plain',
            connection: 'close',
          });
          response.end(found ? keyAuthorization : 'not found\n');
        },
      );
      server.maxConnections = maxConnections;
      await listen(server, address);
      return () => close(server);
    },
  };
}

function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> {
  return new Promise((resolve, reject) => {
    // For good: a connection that cannot be taken later must not end the daemon.
    server.on('error', (error) =>
      reject(
        new HansaError(
          'HANSA_CONFIG_INVALID',
          `Cannot answer the http-01 challenge on ${host}:${port}: ${error.message}. Free the address, choose another with acme.httpAddress, or use acme.challenge tls-alpn-01.`,
          { cause: error },
        ),
      ),
    );
    server.listen(port, host, resolve);
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
