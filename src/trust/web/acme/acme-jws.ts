// Signs with the account key (RFC 8555 §6.2): requests as flattened JWS with ES256, and the key
// authorizations of challenges (§8.1).

import { createHash, createPublicKey, type KeyObject, sign } from 'node:crypto';

interface EcJwk {
  readonly crv: string;
  readonly kty: string;
  readonly x: string;
  readonly y: string;
}

/** With its members in the order of their names, and no other, as RFC 7638 §3 hashes them. */
export function publicJwk(key: KeyObject): EcJwk {
  const { crv = '', kty = '', x = '', y = '' } = createPublicKey(key).export({ format: 'jwk' });
  return { crv, kty, x, y };
}

export function signRequest(
  key: KeyObject,
  url: string,
  nonce: string,
  signer: { readonly kid: string } | { readonly jwk: object },
  payload: object | undefined,
): string {
  const header = base64url(JSON.stringify({ alg: 'ES256', nonce, url, ...signer }));
  const body = payload === undefined ? '' : base64url(JSON.stringify(payload));
  const signature = sign('sha256', Buffer.from(`${header}.${body}`), {
    key,
    dsaEncoding: 'ieee-p1363',
  });
  return JSON.stringify({
    protected: header,
    payload: body,
    signature: signature.toString('base64url'),
  });
}

/** RFC 8555 §8.1: proves that the holder of the account key answers the challenge. */
export function keyAuthorization(token: string, accountKey: KeyObject): string {
  const thumbprint = createHash('sha256').update(JSON.stringify(publicJwk(accountKey)));
  return `${token}.${thumbprint.digest('base64url')}`;
}

function base64url(text: string): string {
  return Buffer.from(text).toString('base64url');
}
