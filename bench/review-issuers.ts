// Many clusters without API servers: one https server has the keys of all of them, each at an issuer URL
// of its own.

import { generateKeyPair } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { keyIdOf } from '../src/auth/review/test-service-account-tokens.ts';
import { certificatePem } from '../src/core/identity/x509/pem.ts';
import { credentialOf, forge, purposes } from '../src/core/identity/x509/test-forge.ts';
import type { Signer } from './review-tokens.ts';

export interface Issuers {
  readonly signers: readonly Signer[];
  /** PEM. */
  readonly ca: string;
  close(): void;
}

export async function serveIssuers(count: number): Promise<Issuers> {
  const keys = await Promise.all(
    Array.from({ length: count }, () => promisify(generateKeyPair)('rsa', { modulusLength: 2048 })),
  );
  const root = forge({ ca: true });
  const leaf = forge({
    issuer: root,
    ca: false,
    dnsNames: ['localhost'],
    purposes: [purposes.server],
  });
  const { certificateChain: cert, privateKey: key } = credentialOf(leaf);
  const server = createServer({ cert, key }, ({ url = '' }, response) => {
    const [, number = '', ...rest] = url.split('/');
    const signer = signers[Number(number)];
    if (signer === undefined) response.writeHead(404).end();
    else if (rest.join('/') === 'keys') response.end(jwksOf(signer));
    else {
      const { issuer } = signer;
      response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}/keys` }));
    }
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const signers: readonly Signer[] = keys.map((pair, index) => ({
    key: pair,
    issuer: `https://localhost:${port}/${String(index).padStart(2, '0')}`,
    uid: '8f0ae6a5-5f1c-4d0c-8c29-0a4c6f6f3f11',
  }));
  return { signers, ca: certificatePem(root.der), close: () => server.close() };
}

function jwksOf({ key }: Signer): string {
  const jwk = key.publicKey.export({ format: 'jwk' });
  return JSON.stringify({ keys: [{ ...jwk, kid: keyIdOf(key), use: 'sig', alg: 'RS256' }] });
}
