// Cases of the TokenReview comparison with malformed claims, forged tokens and texts that are no tokens.

import {
  encode,
  keyIdOf,
  signByPublicKey,
  signToken,
} from '../../src/auth/review/test-service-account-tokens.ts';
import { about, type Case, type Deviation, everywhere, fresh } from './review-case.ts';
import { type ReviewScene, reviewKeys } from './review-scene.ts';

const { rsa, p256, other } = reviewKeys;

export const malformed: readonly Case[] = [
  about('exp as text', (scene) => scene.token({ exp: 'soon' })),
  about('nbf as object', (scene) => scene.token({ nbf: {} })),
  about('aud as number', (scene) => scene.token({ aud: 1 })),
  about('aud as null', (scene) => scene.token({ aud: null })),
  about('aud with a number', (scene) => scene.token({ aud: ['a', 1] })),
  about('jti as number', (scene) => scene.token({ jti: 1 })),
  about('sub as boolean', (scene) => scene.token({ sub: true })),
  about('iss as number', (scene) => scene.token({ iss: 1 })),
  about('kubernetes.io as text', (scene) => scene.token({ 'kubernetes.io': 'x' })),
  about('pod as list', (scene) => scene.token({}, { pod: [] as object })),
  about('namespace as number', (scene) => scene.token({}, { namespace: 1 as unknown as string })),
  about('a duplicate claim', (scene) =>
    signToken({ key: rsa, claims: JSON.stringify(scene.claims()).replace('{', '{"jti":"x",') }),
  ),
  about('a duplicate claim inside', (scene) =>
    signToken({
      key: rsa,
      claims: JSON.stringify(scene.claims()).replace('"namespace"', '"namespace":"a","namespace"'),
    }),
  ),
  about('a duplicate claim that Kubernetes does not know', (scene) =>
    signToken({
      key: rsa,
      claims: JSON.stringify(scene.claims()).replace('{', '{"more":{"a":1,"a":2},'),
    }),
  ),
  about('an issuer in capital letters', (scene) => {
    const { iss, ...claims } = scene.claims();
    return signToken({ key: rsa, claims: { ...claims, ISS: iss } });
  }),
  about('an issuer in capital letters, of another key', (scene) => {
    const { iss, ...claims } = scene.claims();
    return signToken({ key: other, claims: { ...claims, ISS: iss }, header: { kid: undefined } });
  }),
  about('two issuers, of which the last is ours', (scene) => {
    const { iss, ...claims } = scene.claims();
    return signToken({
      key: rsa,
      claims: { iss: 'https://elsewhere.example', ...claims, Iss: iss },
    });
  }),
  about('two issuers, of which the first is ours', (scene) =>
    scene.token({ 'i\u017fs': 'https://elsewhere.example' }),
  ),
  about('an issuer that is a number in capital letters', (scene) => scene.token({ ISS: 1 })),
  about('claims nested deeply', (scene) => nested(scene, 9_000)),
  about('claims nested too deeply', (scene) => nested(scene, 10_001)),
  about('half a surrogate pair in jti', (scene) =>
    signToken({
      key: rsa,
      claims: JSON.stringify(scene.claims()).replace('"jti":"', String.raw`"jti":"\ud800`),
    }),
  ),
  about('no kubernetes.io', (scene) => scene.token({ 'kubernetes.io': undefined })),
  about('no namespace', (scene) => scene.token({}, { namespace: '' })),
  about('no name', (scene) => scene.token({}, { serviceaccount: { uid: 'a' } })),
  about('a namespace with a colon', (scene) => scene.token({}, { namespace: 'a:b' })),
  about('a name with a colon', (scene) =>
    scene.token({}, { serviceaccount: { name: 'a:b', uid: 'a' } }),
  ),
];

function nested(scene: ReviewScene, depth: number): string {
  const deep = `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const claims = JSON.stringify(scene.claims()).replace('{', `{"deep":${deep},`);
  return signToken({ key: rsa, claims });
}

/** Replaces the text between two dots. */
function withPart(token: string, index: number, change: (part: string) => string): string {
  return token
    .split('.')
    .map((part, at) => (at === index ? change(part) : part))
    .join('.');
}

const flip = (part: string) =>
  part[10] === 'A' ? part.replace(/^(.{10})./, '$1B') : part.replace(/^(.{10})./, '$1A');

export const forged: readonly Case[] = [
  about('changed claims', (scene) =>
    withPart(scene.token(), 1, () => encode(scene.claims({ sub: 'x' }))),
  ),
  about('a changed header', (scene) =>
    withPart(scene.token(), 0, () => encode({ alg: 'RS256', kid: keyIdOf(rsa), typ: 'JWT' })),
  ),
  about('a broken header', (scene) => withPart(scene.token(), 0, flip)),
  about('a changed signature', (scene) => withPart(scene.token(), 2, flip)),
  about('a cut signature', (scene) => withPart(scene.token(), 2, (part) => part.slice(0, -4))),
  about('a signature of an impossible length', (scene) =>
    withPart(scene.token(), 2, (part) =>
      part.slice(0, -1).slice(0, part.length - (part.length % 4) - 3),
    ),
  ),
  about('stray bits after the header', (scene) =>
    withPart(scene.token({}, {}, { header: { x: 'ab' } }), 0, strayBits),
  ),
  about('stray bits after the claims', (scene) => {
    for (;;) {
      const token = scene.token({ pad: 'x'.repeat(fresh('').length) });
      if ((token.split('.')[1] as string).length % 4 !== 0) return withPart(token, 1, strayBits);
    }
  }),
  about('a token of another cluster', (scene) => scene.token({}, {}, { key: other })),
  about('a token of another cluster, with our kid', (scene) =>
    scene.token({}, {}, { key: other, algorithm: 'ES256', header: { kid: keyIdOf(p256) } }),
  ),
  about('a token of another cluster, without kid', (scene) =>
    scene.token({}, {}, { key: other, header: { kid: undefined } }),
  ),
  about('an unknown kid', (scene) => scene.token({}, {}, { header: { kid: '../../etc/passwd' } })),
  about('the kid of another key', (scene) =>
    scene.token({}, {}, { header: { kid: keyIdOf(p256) } }),
  ),
  about('a wrong issuer', (scene) => scene.token({ iss: 'https://elsewhere.example' })),
  about('no issuer', (scene) => scene.token({ iss: undefined })),
  about(
    'alg none',
    (scene) => `${encode({ alg: 'none', kid: keyIdOf(rsa) })}.${encode(scene.claims())}.`,
  ),
  about('no header', (scene) => `.${encode(scene.claims())}.`),
  about('HS256 with the public key', (scene) =>
    signByPublicKey(rsa, { alg: 'HS256', kid: keyIdOf(rsa) }, scene.claims()),
  ),
  about('EdDSA in the header', (scene) => scene.token({}, {}, { header: { alg: 'EdDSA' } })),
  about('RS256 for an EC key', (scene) =>
    scene.token({}, {}, { key: p256, header: { alg: 'RS256' } }),
  ),
  about('an embedded public key', (scene) =>
    scene.token(
      {},
      {},
      {
        key: other,
        header: {
          kid: keyIdOf(p256),
          jwk: other.publicKey.export({ format: 'jwk' }),
          jku: 'https://evil.example/keys',
          x5u: 'https://evil.example/cert',
        },
      },
    ),
  ),
  about('an embedded public key in a valid token', (scene) =>
    scene.token({}, {}, { header: { jwk: other.publicKey.export({ format: 'jwk' }) } }),
  ),
  about('an embedded private key', (scene) =>
    scene.token({}, {}, { header: { jwk: other.privateKey.export({ format: 'jwk' }) } }),
  ),
  about('an embedded key that is none', (scene) =>
    scene.token({}, {}, { header: { jwk: { kty: 'EC' } } }),
  ),
  about('embedded certificates that are none', (scene) =>
    scene.token({}, {}, { header: { x5c: ['AAAA'] } }),
  ),
  about('an unknown critical extension', (scene) =>
    scene.token({}, {}, { header: { crit: ['exp'] } }),
  ),
  about('crit as text', (scene) => scene.token({}, {}, { header: { crit: 'exp' } })),
  about('kid as number', (scene) => scene.token({}, {}, { header: { kid: 1 } })),
  about('duplicates in the header', (scene) =>
    scene.token({}, {}, { header: `{"alg":"RS256","kid":"a","kid":"${keyIdOf(rsa)}"}` }),
  ),
  about('a header that is null', (scene) => scene.token({}, {}, { header: 'null' })),
  about('a header that is a list', (scene) => scene.token({}, {}, { header: '[]' })),
];

function strayBits(part: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = alphabet[alphabet.indexOf(part.at(-1) as string) + 1] as string;
  return part.slice(0, -1) + last;
}

const anonymous: Deviation = {
  modes: everywhere,
  reason: 'a blank token names no user',
  ours: 'denied',
};

const longHeader: Deviation = {
  modes: everywhere,
  reason: 'a site reads no token header beyond 8 KiB in base64url',
  ours: /invalid bearer token/,
};

export const texts: readonly Case[] = [
  about('garbage', () => `garbage-${Math.random()}`),
  about('two parts', () => 'a.b'),
  about('four parts', () => 'a.b.c.d'),
  about('three parts of garbage', () => 'a.b.c'),
  about('dots', () => '..'),
  about('huge garbage', () => 'x'.repeat(100_000)),
  about(
    'a long header',
    (scene) =>
      signToken({ key: rsa, claims: scene.claims(), header: { more: 'x'.repeat(8 * 1024) } }),
    longHeader,
  ),
  about('base64 of the other alphabet', (scene) =>
    withPart(scene.token(), 2, (part) => `+/${part.slice(2)}`),
  ),
  about('padding', (scene) => `${scene.token()}==`),
  about('a token as JSON', (scene) => {
    const [header, payload, signature] = scene.token().split('.');
    return JSON.stringify({ protected: header, payload, signature });
  }),
  about('a line end after the token', (scene) => `${scene.token()}\n`),
  about('line ends inside the claims', (scene) =>
    withPart(scene.token(), 1, (part) => `${part.slice(0, 9)}\r\n${part.slice(9)}`),
  ),
  about('a space inside the claims', (scene) =>
    withPart(scene.token(), 1, (part) => `${part.slice(0, 9)} ${part.slice(9)}`),
  ),
  about('a tab before the token', (scene) => `\t${scene.token()}`),
  about('a tab inside the signature', (scene) =>
    withPart(scene.token(), 2, (part) => `${part.slice(0, 9)}\t${part.slice(9)}`),
  ),
  about('a tab inside the claims', (scene) =>
    withPart(scene.token(), 1, (part) => `${part.slice(0, 9)}\t${part.slice(9)}`),
  ),
  about('words after the token', (scene) => `${scene.token()} and more`),
  about('a no-break space after the token', (scene) => `${scene.token()}\u00a0`),
  about('a byte order mark after the token', (scene) => `${scene.token()}\ufeff`),
  about('other letters', () => 'ü.ü.ü'),
  about('a static token', (scene) => scene.kube.token, {
    modes: everywhere,
    reason: 'only ServiceAccount tokens of the registered issuer count',
    ours: /^invalid bearer token$/,
  }),
  about('a space before the token', (scene) => ` ${scene.token()}`, anonymous),
  about('a space', () => ' ', anonymous),
  about('a tab', () => '\t', anonymous),
];
