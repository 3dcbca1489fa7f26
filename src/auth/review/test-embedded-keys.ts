// Test fixture: keys in the header of a token (`jwk`), and whether go-jose reads them. The interop tests ask a
// real kube-apiserver about the same keys.

import { createHash, generateKeyPairSync, type JsonWebKey } from 'node:crypto';
import { forge } from '../../core/identity/x509/test-forge.ts';

function generated(namedCurve: string): JsonWebKey {
  return generateKeyPairSync('ec', { namedCurve }).publicKey.export({ format: 'jwk' });
}

/** A key of P-521 whose first coordinate begins with a zero byte, as every other one does. */
function withLeadingZero(): JsonWebKey {
  for (;;) {
    const key = generated('P-521');
    if (bytes(key.x)[0] === 0) return key;
  }
}

const bytes = (text: string | undefined): Buffer => Buffer.from(String(text), 'base64url');
const text = (...parts: readonly Uint8Array[]): string =>
  Buffer.concat(parts).toString('base64url');

const ec = generated('P-256');
const zero = withLeadingZero();
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey.export({ format: 'jwk' });
const ed = generateKeyPairSync('ed25519');
const edPublic = ed.publicKey.export({ format: 'jwk' });
const { key: certified, der } = forge({ ca: true });
const certifiedKey = { ...certified.export({ format: 'jwk' }), d: undefined };
const x5c = [der.toString('base64')];
const sha1 = createHash('sha1').update(der).digest();
const sha256 = createHash('sha256').update(der).digest();
/** The stray bits of the last character are not zero. */
const stray = (encoded: string | undefined): string => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = alphabet.indexOf(String(encoded).at(-1) as string) + 1;
  return `${String(encoded).slice(0, -1)}${alphabet[last]}`;
};

export const embeddedKeys: readonly (readonly [name: string, key: unknown, isRead: boolean])[] = [
  ['an EC key', ec, true],
  ['an EC key of P-521', zero, true],
  ['an EC key of another curve', generated('secp256k1'), false],
  ['an EC key with a short coordinate', { ...zero, x: text(bytes(zero.x).subarray(1)) }, false],
  ['an EC key with a long coordinate', { ...ec, y: text(Buffer.of(0), bytes(ec.y)) }, false],
  ['an EC key that is not on its curve', { ...ec, x: ec.y, y: ec.x }, false],
  ['an EC key with an empty coordinate', { ...ec, y: '' }, false],
  ['an EC key with a coordinate of null', { ...ec, y: null }, false],
  ['an EC key with padding', { ...ec, x: `${ec.x}=` }, false],
  ['an EC key with stray bits', { ...ec, x: stray(ec.x) }, true],
  ['an EC key with a line break', { ...ec, x: `${ec.x}\n` }, true],
  ['an EC key in the other base64', { ...ec, x: `${String(ec.x).slice(0, -1)}+` }, false],
  ['an RSA key', rsa, true],
  ['an RSA key without n', { kty: 'RSA', e: rsa.e }, false],
  ['an RSA key with an empty n', { ...rsa, n: '' }, true],
  ['an RSA key with an even n', { ...rsa, n: 'AAAC' }, true],
  ['an RSA key with an empty e', { ...rsa, e: '' }, false],
  ['an RSA key with e of 0', { ...rsa, e: 'AA' }, false],
  ['an RSA key with e of 1', { ...rsa, e: 'AQ' }, true],
  ['an RSA key with e of 2 to the 64th', { ...rsa, e: text(Buffer.of(1), Buffer.alloc(8)) }, false],
  ['an Ed25519 key', edPublic, true],
  ['an Ed25519 key that is short', { ...edPublic, x: 'AQ' }, true],
  ['an Ed25519 key without x', { kty: 'OKP', crv: 'Ed25519' }, false],
  ['an X25519 key', { ...edPublic, crv: 'X25519' }, false],
  ['a private Ed25519 key', ed.privateKey.export({ format: 'jwk' }), false],
  ['a symmetric key', { kty: 'oct', k: 'AAAA' }, false],
  ['a key without a type', { ...ec, kty: undefined }, false],
  ['an empty object', {}, false],
  ['a list', [], false],
  ['null', null, true],
  ['an unknown member', { ...ec, more: [1] }, true],
  ['a kid that is a number', { ...ec, kid: 1 }, false],
  ['a use of null', { ...ec, use: null }, true],
  ['an unused member that is a number', { ...ec, p: 1 }, false],
  ['an unused member that is not base64url', { ...ec, qi: '*' }, false],
  ['x5u as text', { ...ec, x5u: 'https://evil.example/cert' }, false],
  ['x5u as object', { ...ec, x5u: {} }, true],
  ['its certificate', { ...certifiedKey, x5c }, true],
  ['the certificate of another key', { ...ec, x5c }, false],
  ['the certificate of a key of another type', { ...rsa, x5c }, false],
  ['no certificate', { ...ec, x5c: [] }, true],
  ['a certificate that is none', { ...ec, x5c: ['AAAA'] }, false],
  ['a thumbprint', { ...ec, x5t: text(sha1) }, true],
  ['a thumbprint of a wrong length', { ...ec, x5t: 'AAAA' }, false],
  ['a thumbprint in hexadecimal', { ...ec, x5t: text(Buffer.from(sha1.toString('hex'))) }, true],
  ['a thumbprint that only seems hexadecimal', { ...ec, x5t: text(Buffer.alloc(40, 'x')) }, false],
  [
    'the thumbprints of its certificate',
    {
      ...certifiedKey,
      x5c,
      x5t: text(sha1),
      'x5t#S256': text(sha256),
    },
    true,
  ],
  [
    'the thumbprint of another certificate',
    {
      ...certifiedKey,
      x5c,
      'x5t#S256': text(Buffer.alloc(32)),
    },
    false,
  ],
];
