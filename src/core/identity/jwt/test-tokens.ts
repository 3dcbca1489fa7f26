// Test fixture: tokens that are valid, or invalid in exactly one way, which the name of the sample
// states. test/interop also runs them against another implementation.

import {
  constants,
  createHmac,
  generateKeyPairSync,
  type KeyObject,
  sign,
  type SignKeyObjectInput,
} from 'node:crypto';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { Bundle, type BundleSource, type JwtAuthority } from '../bundle/bundle.ts';
import type { JwtRule } from './rules.ts';

const ec = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve });
const keys = {
  p256: ec('prime256v1'),
  p384: ec('secp384r1'),
  p521: ec('secp521r1'),
  rsa: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  /** A second key of the same domain, and one of another domain under a kid that both have. */
  spare: ec('prime256v1'),
  theirs: ec('prime256v1'),
  stranger: ec('prime256v1'),
};

const authority = (keyId: string, { publicKey }: { publicKey: KeyObject }): JwtAuthority => ({
  keyId,
  publicKey,
});

const lubeck = TrustDomain.parse('lubeck.example');
const bruges = TrustDomain.parse('bruges.example');
export const tokenBundles: readonly Bundle[] = [
  new Bundle(
    lubeck,
    [],
    [
      authority('p256', keys.p256),
      authority('p384', keys.p384),
      authority('p521', keys.p521),
      authority('rsa', keys.rsa),
      authority('shared', keys.spare),
    ],
  ),
  new Bundle(bruges, [], [authority('shared', keys.theirs), authority('theirs', keys.theirs)]),
];
export const tokenBundleSource: BundleSource = {
  bundleFor: (domain) => tokenBundles.find(({ trustDomain }) => trustDomain.equals(domain)),
};

/** The audience of all samples. */
export const sampleAudience = 'reports';
export const sampleId = 'spiffe://lubeck.example/web';

type Json = Record<string, unknown>;

const base64url = (text: string | Buffer): string => Buffer.from(text).toString('base64url');

/** Uses strings as they are and encodes objects as JSON. */
export interface TokenParts {
  readonly header: Json | string;
  readonly payload: Json | string;
  readonly key: KeyObject;
  readonly algorithm?: string;
}

/** Signs with `algorithm`, regardless of the header. */
export function forgeToken({ header, payload, key, algorithm }: TokenParts): string {
  const text = (part: Json | string): string =>
    base64url(typeof part === 'string' ? part : JSON.stringify(part));
  const signed = `${text(header)}.${text(payload)}`;
  const by = algorithm ?? String(typeof header === 'string' ? 'ES256' : header['alg']);
  return `${signed}.${base64url(signatureOf(by, signed, key))}`;
}

function signatureOf(algorithm: string, signed: string, key: KeyObject): Buffer {
  const bytes = Buffer.from(signed);
  const digest = `sha${algorithm.slice(2)}`;
  const input: SignKeyObjectInput = { key };
  if (algorithm.startsWith('HS')) {
    // The known attack: uses the public key as a shared secret.
    return createHmac(digest, key.export({ format: 'pem', type: 'spki' }))
      .update(bytes)
      .digest();
  }
  if (algorithm.startsWith('ES')) input.dsaEncoding = 'ieee-p1363';
  if (algorithm.startsWith('PS')) {
    input.padding = constants.RSA_PKCS1_PSS_PADDING;
    input.saltLength = constants.RSA_PSS_SALTLEN_DIGEST;
  }
  return algorithm === 'none' ? Buffer.alloc(0) : sign(digest, bytes, input);
}

export interface TokenSample {
  readonly name: string;
  readonly token: string;
  /** The rule that it breaks; undefined where it is valid. */
  readonly rule: JwtRule | undefined;
  /** Why go-spiffe accepts a token that this site rejects, or the reverse. */
  readonly goSpiffeDiffers?: string;
}

const algorithms: readonly (readonly [string, keyof typeof keys])[] = [
  ['ES256', 'p256'],
  ['ES384', 'p384'],
  ['ES512', 'p521'],
  ['RS256', 'rsa'],
  ['RS384', 'rsa'],
  ['RS512', 'rsa'],
  ['PS256', 'rsa'],
  ['PS384', 'rsa'],
  ['PS512', 'rsa'],
];

/** All samples, with times relative to now. */
export function tokenSamples(nowMs: number): readonly TokenSample[] {
  const now = Math.floor(nowMs / 1000);
  const header: Json = { alg: 'ES256', kid: 'p256', typ: 'JWT' };
  const payload: Json = { sub: sampleId, aud: [sampleAudience], exp: now + 300, iat: now };
  const make = (
    changes: { header?: Json | string; payload?: Json | string; key?: KeyObject; as?: string } = {},
  ): string =>
    forgeToken({
      header:
        typeof changes.header === 'string' ? changes.header : { ...header, ...changes.header },
      payload:
        typeof changes.payload === 'string' ? changes.payload : { ...payload, ...changes.payload },
      key: changes.key ?? keys.p256.privateKey,
      ...(changes.as === undefined ? {} : { algorithm: changes.as }),
    });
  const token = make();
  const [head, body, signature] = token.split('.') as [string, string, string];
  const good = (name: string, text: string, goSpiffeDiffers?: string): TokenSample => ({
    name,
    token: text,
    rule: undefined,
    ...(goSpiffeDiffers === undefined ? {} : { goSpiffeDiffers }),
  });
  const bad = (
    rule: JwtRule,
    name: string,
    text: string,
    goSpiffeDiffers?: string,
  ): TokenSample => ({ ...good(name, text, goSpiffeDiffers), rule });
  const laxHeaders = 'it takes headers that JWT-SVID §2 does not name';
  const leeway = 'it allows for a minute after the expiry';
  return [
    ...algorithms.map(([alg, kid]) =>
      good(`signed by ${alg}`, make({ header: { alg, kid }, key: keys[kid].privateKey })),
    ),
    good('with typ JOSE', make({ header: { typ: 'JOSE' } })),
    good('without typ', make({ header: { typ: undefined } })),
    good('without kid', make({ header: { kid: undefined } }), 'it demands a kid'),
    good('with a single text for an audience', make({ payload: { aud: sampleAudience } })),
    good('for several audiences', make({ payload: { aud: ['x', sampleAudience] } })),
    good('with a fraction of a second in its times', make({ payload: { exp: now + 300.5 } })),
    good('with claims of its own', make({ payload: { iss: 'x', a: { b: [1, null, 'é'] } } })),
    good('from a clock that is half a minute ahead', make({ payload: { iat: now + 30 } })),
    good(
      'of another trust domain, by a key of that one',
      make({
        header: { kid: 'theirs' },
        payload: { sub: 'spiffe://bruges.example/db' },
        key: keys.theirs.privateKey,
      }),
    ),

    bad('serialization', 'that is empty', ''),
    bad('serialization', 'with two parts', `${head}.${body}`),
    bad('serialization', 'with four parts', `${token}.${signature}`),
    bad(
      'serialization',
      'in JSON serialization',
      JSON.stringify({ protected: head, payload: body, signature }),
    ),
    bad('signature', 'without a signature', `${head}.${body}.`),
    bad('base64url', 'with padding', `${head}==.${body}.${signature}`),
    bad('base64url', 'with a blank', `${head}. ${body}.${signature}`),
    bad('base64url', 'with a line end', `${token}\n`, 'it drops white space'),
    bad('base64url', 'in base64 that is not for URLs', `${head}.${body}.++//${signature.slice(4)}`),
    bad(
      'base64url',
      'with stray bits behind its signature',
      `${head}.${body}.${otherSpelling(signature)}`,
      'it takes several spellings of the same bytes',
    ),
    bad(
      'size-limit',
      'that is too long',
      make({ payload: { a: 'x'.repeat(16_000) } }),
      'it has a larger limit',
    ),
    bad('json', 'whose header is no JSON', make({ header: '{' })),
    bad('json', 'whose header is a list', make({ header: '[]' })),
    bad('json', 'whose payload is no JSON', make({ payload: 'claims' })),
    bad('json', 'whose payload is a list', make({ payload: '[]' })),
    bad(
      'json',
      'whose payload is not UTF-8',
      [head, base64url(Buffer.from([0x7b, 0xff, 0x7d])), signature].join('.'),
    ),
    bad(
      'duplicate-member',
      'with two alg',
      make({ header: '{"alg":"none","alg":"ES256","kid":"p256"}' }),
    ),
    bad(
      'duplicate-member',
      'with two sub',
      make({
        payload: JSON.stringify(payload).replace('{', '{"sub":"spiffe://lubeck.example/admin",'),
      }),
    ),

    bad('algorithm', 'with alg none', make({ header: { alg: 'none' }, as: 'ES256' })),
    bad('algorithm', 'with alg none and no signature', make({ header: { alg: 'none' } })),
    bad(
      'algorithm',
      'with alg none and a payload that is no JSON',
      make({ header: { alg: 'none' }, payload: 'claims', as: 'ES256' }),
    ),
    bad('algorithm', 'with alg NONE', make({ header: { alg: 'NONE' }, as: 'ES256' })),
    bad(
      'algorithm',
      'by HS256 with our public key as the secret',
      make({ header: { alg: 'HS256' }, key: keys.p256.publicKey }),
    ),
    bad('algorithm', 'by EdDSA', make({ header: { alg: 'EdDSA' }, as: 'ES256' })),
    bad('algorithm', 'by ES256K', make({ header: { alg: 'ES256K' }, as: 'ES256' })),
    bad('algorithm', 'without alg', make({ header: { alg: undefined }, as: 'ES256' })),
    bad('algorithm', 'whose alg is no text', make({ header: { alg: ['ES256'] }, as: 'ES256' })),
    bad(
      'algorithm',
      'whose alg is in the prototype of every object',
      make({ header: { alg: 'constructor' }, as: 'ES256' }),
    ),
    bad('type', 'with typ at+jwt', make({ header: { typ: 'at+jwt' } })),
    bad('type', 'with typ jwt in lower case', make({ header: { typ: 'jwt' } })),
    bad('type', 'with an empty typ', make({ header: { typ: '' } })),
    bad('type', 'whose typ is no text', make({ header: { typ: 1 } })),
    bad('critical-header', 'with crit', make({ header: { crit: ['exp'], exp: 1 } })),
    bad('header', 'with b64', make({ header: { b64: false } })),
    bad(
      'header',
      'that brings its key',
      make({
        header: { jwk: keys.stranger.publicKey.export({ format: 'jwk' }) },
        key: keys.stranger.privateKey,
      }),
    ),
    bad(
      'header',
      'that names an address of keys',
      make({ header: { jku: 'https://evil.example/keys' } }),
      laxHeaders,
    ),
    bad('header', 'with a header of its own', make({ header: { 'x-a': 1 } }), laxHeaders),

    bad('key-id', 'whose kid is no text', make({ header: { kid: 7 } })),
    bad('key-id', 'whose kid is empty', make({ header: { kid: '' } })),
    bad('unknown-key', 'with an unknown kid', make({ header: { kid: 'gone' } })),
    bad(
      'unknown-key',
      'with the kid of another trust domain',
      make({ header: { kid: 'theirs' }, key: keys.theirs.privateKey }),
    ),
    bad(
      'signature',
      'by a key of another trust domain under a kid of ours',
      make({ header: { kid: 'shared' }, key: keys.theirs.privateKey }),
    ),
    bad('signature', 'by a stranger', make({ key: keys.stranger.privateKey })),
    bad(
      'signature',
      'by a stranger, without kid',
      make({ header: { kid: undefined }, key: keys.stranger.privateKey }),
    ),
    bad(
      'signature',
      'by another key of its trust domain than it names',
      make({ key: keys.spare.privateKey }),
    ),
    bad(
      'signature',
      'whose claims were changed',
      [head, base64url(JSON.stringify({ ...payload, sub: `${sampleId}2` })), signature].join('.'),
    ),
    bad('signature', 'whose signature is cut', `${head}.${body}.${signature.slice(0, -2)}`),
    bad('signature', 'whose signature is zeros', `${head}.${body}.${base64url(Buffer.alloc(64))}`),
    bad(
      'signature',
      'whose signature is DER as in certificates',
      `${head}.${body}.${base64url(sign('sha256', Buffer.from(`${head}.${body}`), keys.p256.privateKey))}`,
    ),
    bad(
      'key-type',
      'by RS256 with a key that is EC',
      make({ header: { alg: 'RS256' }, key: keys.rsa.privateKey }),
    ),
    bad(
      'key-type',
      'by ES384 with a key on P-256',
      make({ header: { alg: 'ES384' }, as: 'ES256' }),
    ),
    bad(
      'signature',
      'that says RS256 and is PS256',
      make({ header: { alg: 'RS256', kid: 'rsa' }, key: keys.rsa.privateKey, as: 'PS256' }),
    ),

    bad('subject', 'without sub', make({ payload: { sub: undefined } })),
    bad('subject', 'with an empty sub', make({ payload: { sub: '' } })),
    bad('subject', 'whose sub is no text', make({ payload: { sub: 7 } })),
    bad('subject', 'whose sub is no SPIFFE ID', make({ payload: { sub: 'web' } })),
    bad('subject', 'whose sub is a URL', make({ payload: { sub: 'https://lubeck.example/web' } })),
    bad('subject', 'whose sub has a query', make({ payload: { sub: `${sampleId}?x=1` } })),
    bad(
      'subject',
      'whose sub has dots for a segment',
      make({ payload: { sub: `${sampleId}/..` } }),
    ),
    bad(
      'subject',
      'whose sub is a trust domain alone',
      make({ payload: { sub: 'spiffe://lubeck.example' } }),
      'it takes the ID of a trust domain for that of a workload',
    ),
    bad(
      'no-bundle',
      'of a trust domain that is not trusted',
      make({ payload: { sub: 'spiffe://reval.example/web' } }),
    ),
    bad('audience', 'without aud', make({ payload: { aud: undefined } })),
    bad('audience', 'with an empty list of audiences', make({ payload: { aud: [] } })),
    bad('audience', 'for another audience', make({ payload: { aud: ['Reports'] } })),
    bad(
      'audience',
      'whose audiences are not all texts',
      make({ payload: { aud: [sampleAudience, 1] } }),
    ),
    bad('audience', 'whose audience is a number', make({ payload: { aud: 1 } })),
    bad('expiry', 'without exp', make({ payload: { exp: undefined } })),
    bad('expiry', 'whose exp is a text', make({ payload: { exp: String(now + 300) } })),
    bad(
      'expiry',
      'whose exp is beyond all dates',
      make({ payload: JSON.stringify(payload).replace(/"exp":\d+/, '"exp":1e400') }),
    ),
    bad('expiry', 'that expired long ago', make({ payload: { exp: now - 300 } })),
    bad('expiry', 'that expires this second', make({ payload: { exp: now } }), leeway),
    bad('not-before', 'that is not valid yet', make({ payload: { nbf: now + 300 } })),
    bad('not-before', 'whose nbf is no time', make({ payload: { nbf: 'soon' } })),
    bad('issued-at', 'from the future', make({ payload: { iat: now + 300 } })),
    bad('issued-at', 'whose iat is no time', make({ payload: { iat: [] } })),
  ];
}

/** The last character of 64 bytes in base64url has four bits that mean nothing. */
function otherSpelling(text: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return text.slice(0, -1) + alphabet[alphabet.indexOf(text.at(-1) as string) + 1];
}
