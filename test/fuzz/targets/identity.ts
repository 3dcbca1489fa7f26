// Parsers of core/identity and of the values of api: what certificates, bundles and names are made of.

import { createPublicKey } from 'node:crypto';
import { SpiffeId } from '../../../src/api/spiffe-id.ts';
import { TrustDomain } from '../../../src/api/trust-domain.ts';
import { Bundle } from '../../../src/core/identity/bundle.ts';
import { Certificate } from '../../../src/core/identity/certificate.ts';
import { assertDer } from '../../../src/core/identity/der-reader.ts';
import { validateJwtSvid } from '../../../src/core/identity/jwt-svid.ts';
import { parseCertificatesPem } from '../../../src/core/identity/pem.ts';
import { parseSpiffeBundle } from '../../../src/core/identity/spiffe-bundle.ts';
import { validateChain } from '../../../src/core/identity/svid-validator.ts';
import { readCorpus } from '../corpus.ts';
import type { Target } from '../target.ts';

const lubeck = TrustDomain.parse('lubeck.example');
/** Within the validity of everything in the corpus. */
const nowMs = Date.UTC(2026, 0);

/** What a certificate of the corpus is judged by: the authority that lies there. */
const authority = readCorpus('certificate').find(({ name }) => name === 'authority.hex')?.input;
const bundle = new Bundle(lubeck, authority === undefined ? [] : [Certificate.parse(authority)]);

/** Its private half is nowhere: it signed the tokens of the corpus, and was forgotten. */
const tokenKey = createPublicKey({
  key: {
    kty: 'EC',
    crv: 'P-256',
    x: 'Z2wRYs2C5ul74xksaJuLht1dB00aX70yvr__spuBazs',
    y: 'CEGAeGVsxAPLENCvI40sKHYqpx3TEZNwVxtK-0yR6fE',
  },
  format: 'jwk',
});
const tokenBundle = new Bundle(lubeck, [], [{ keyId: 'one', publicKey: tokenKey }]);

const tokenWords = [
  'alg',
  'none',
  'ES256',
  'ES384',
  'HS256',
  'RS256',
  'PS512',
  'kid',
  'one',
  'typ',
  'JWT',
  'JOSE',
  'crit',
  'jwk',
  'sub',
  'aud',
  'reports',
  'exp',
  'nbf',
  'iat',
  'spiffe://lubeck.example/web',
  '.',
];

const uriWords = [
  'spiffe://',
  'SPIFFE://',
  'lubeck.example',
  '/',
  '//',
  '/.',
  '/..',
  '%2f',
  '%00',
  '?',
  '#',
  '@',
  ':443',
  '[::1]',
  '\0',
  'ü',
  '\\',
  'hansa/site',
];

const pemWords = [
  '-----BEGIN CERTIFICATE-----',
  '-----END CERTIFICATE-----',
  '-----BEGIN ',
  'PRIVATE KEY-----',
  '\r\n',
  '=',
  '==',
  ' ',
  'MII',
];

const bundleWords = [
  'x509-svid',
  'jwt-svid',
  'wit-svid',
  'X509-SVID',
  'EC',
  'RSA',
  'OKP',
  'oct',
  'P-256',
  'P-521',
  'Ed25519',
  'kid',
  'use',
  'kty',
  'x5c',
  'd',
  'n',
  'e',
  'k',
  'AQAB',
  'keys',
  'spiffe_sequence',
  'spiffe_refresh_hint',
];

export const identityTargets: readonly Target[] = [
  {
    name: 'der',
    grammar: 'der',
    dictionary: [],
    maxBytes: 20_000,
    run: (input) => assertDer(input),
  },
  {
    name: 'certificate',
    grammar: 'der',
    dictionary: uriWords,
    maxBytes: 17_000,
    run: (input) => {
      const certificate = Certificate.parse(input);
      void certificate.publicKey;
      validateChain([certificate], { bundleFor: () => bundle }, nowMs);
    },
  },
  {
    name: 'pem',
    grammar: 'text',
    dictionary: pemWords,
    maxBytes: 70_000,
    run: (input) => void parseCertificatesPem(input.toString('utf8'), 8),
  },
  {
    name: 'spiffe-bundle',
    grammar: 'json',
    dictionary: bundleWords,
    maxBytes: 300_000,
    run: (input) => void parseSpiffeBundle(input, lubeck),
  },
  {
    name: 'jwt-svid',
    grammar: 'jws',
    dictionary: tokenWords,
    maxBytes: 20_000,
    run: (input) => {
      const bundles = { bundleFor: () => tokenBundle };
      validateJwtSvid(input.toString('utf8'), 'reports', bundles, nowMs);
    },
  },
  {
    name: 'spiffe-id',
    grammar: 'text',
    dictionary: uriWords,
    maxBytes: 5_000,
    run: (input) => {
      const text = input.toString('utf8');
      const id = SpiffeId.parse(text);
      if (id.toString() !== text) throw new Error('it is read as another');
    },
  },
  {
    name: 'trust-domain',
    grammar: 'text',
    dictionary: uriWords,
    maxBytes: 1_000,
    run: (input) => void TrustDomain.parse(input.toString('utf8')),
  },
];
