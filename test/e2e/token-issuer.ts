// The part of a Kubernetes API server that signs ServiceAccount tokens and publishes its keys, over TLS with
// a private CA. test/interop uses a real kube-apiserver: this one is for tests of hosts, callers and limits.

import { createSign, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import {
  credentialOf,
  forge,
  forgeLeaf,
  purposes,
} from '../../src/core/identity/x509/test-forge.ts';

export const issuer = 'https://kubernetes.default.svc.cluster.local';

export interface TokenIssuer {
  readonly url: string;
  /** PEM. */
  readonly ca: string;
  /** A token of the ServiceAccount shop/web. */
  token(claims?: Readonly<Record<string, unknown>>): string;
  stop(): Promise<void>;
}

export interface IssuerRequest {
  readonly method: string;
  readonly url: string;
  /** The token of the Authorization header. */
  readonly bearer: string | undefined;
  /** Undefined where it is not JSON. */
  readonly body: object | undefined;
}

/** Undefined: the keys, or 404. */
type Answers = (
  request: IssuerRequest,
) => { readonly status: number; readonly body?: object } | undefined;

/** `answers` comes before the keys. */
export async function startTokenIssuer(keyId: string, answers?: Answers): Promise<TokenIssuer> {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const root = forge({ ca: true });
  const leaf = credentialOf(
    forgeLeaf(root, '', { uris: [], dnsNames: ['localhost'], purposes: [purposes.server] }),
  );
  const jwks = JSON.stringify({
    keys: [{ ...publicKey.export({ format: 'jwk' }), kid: keyId, use: 'sig', alg: 'RS256' }],
  });
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    response.setHeader('content-type', 'application/json');
    const asked = await readRequest(request);
    const answer = answers?.(asked) ?? tokenFor(asked);
    if (answer !== undefined) {
      response.statusCode = answer.status;
      response.end(JSON.stringify(answer.body ?? {}));
    } else if (request.url === '/openid/v1/jwks') response.end(jwks);
    else if (request.url === '/.well-known/openid-configuration') {
      response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}/openid/v1/jwks` }));
    } else {
      response.statusCode = 404;
      response.end('{}');
    }
  };
  const server = createServer(
    { cert: leaf.certificateChain, key: leaf.privateKey },
    (request, response) => void respond(request, response),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  /** A TokenRequest: by this, the cluster proves its key to a site. */
  function tokenFor({ method, url, body }: IssuerRequest): ReturnType<Answers> {
    const path = /^\/api\/v1\/namespaces\/([^/]+)\/serviceaccounts\/([^/]+)\/token$/.exec(url);
    if (path === null || method !== 'POST') return undefined;
    const { spec } = body as { readonly spec: { readonly audiences?: readonly string[] } };
    const [, namespace = '', name = ''] = path;
    const claims = {
      sub: `system:serviceaccount:${namespace}:${name}`,
      'kubernetes.io': { namespace, serviceaccount: { name, uid: `uid-of-${name}` } },
      ...(spec.audiences === undefined ? {} : { aud: spec.audiences }),
    };
    return { status: 201, body: { status: { token: token(claims) } } };
  }
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = (claims: Readonly<Record<string, unknown>> = {}): string => {
    const now = Math.floor(Date.now() / 1000);
    const signed = `${part({ alg: 'RS256', kid: keyId })}.${part({
      iss: issuer,
      aud: [issuer],
      exp: now + 3600,
      iat: now,
      nbf: now,
      jti: '6c1c8c2e-31a4-4f38-8f0e-5a8a3f6c2d10',
      sub: 'system:serviceaccount:shop:web',
      'kubernetes.io': {
        namespace: 'shop',
        serviceaccount: { name: 'web', uid: '0f4bcb8d-24a1-4f7d-bb6a-0a4d6b1b9f0e' },
        pod: { name: 'web-1', uid: '7f1d4bde-9f39-4f0e-8c47-8f9a1c1d2e3f' },
      },
      ...claims,
    })}`;
    const signature = createSign('RSA-SHA256').update(signed).sign(privateKey);
    return `${signed}.${signature.toString('base64url')}`;
  };
  return {
    url: `https://localhost:${(server.address() as AddressInfo).port}`,
    ca: certificatePem(root.der),
    token,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function readRequest(request: IncomingMessage): Promise<IssuerRequest> {
  const { method = '', url = '', headers } = request;
  const body = (await json(request).catch(() => undefined)) as object | undefined;
  return { method, url, bearer: /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1], body };
}
