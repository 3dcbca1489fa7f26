// Fuzz targets for certificates, bundles and names: the parsers of core/identity and api/values.

import { createPublicKey, X509Certificate } from 'node:crypto';
import { SpiffeId } from '../../../src/api/values/spiffe-id.ts';
import { TrustDomain } from '../../../src/api/values/trust-domain.ts';
import { Bundle } from '../../../src/core/identity/bundle/bundle.ts';
import { Certificate } from '../../../src/core/identity/x509/certificate.ts';
import { assertDer, DerReader } from '../../../src/core/identity/x509/der-reader.ts';
import { validateJwtSvid } from '../../../src/core/identity/jwt/svid-validator.ts';
import { tags } from '../../../src/core/identity/x509/der.ts';
import { parseCertificatesPem } from '../../../src/core/identity/x509/pem.ts';
import { parseSpiffeBundle } from '../../../src/core/identity/bundle/spiffe-bundle.ts';
import { parseChain, validateChain } from '../../../src/core/identity/x509/svid-validator.ts';
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
      compareWithOpenSsl(certificate);
      void certificate.publicKey;
      validateChain([certificate], { bundleFor: () => bundle }, nowMs);
    },
  },
  {
    name: 'svid-chain',
    grammar: 'der',
    dictionary: uriWords,
    maxBytes: 60_000,
    run: (input) => {
      const reader = new DerReader(input);
      const ders: Buffer[] = [];
      while (reader.peek() !== -1) ders.push(reader.raw(tags.sequence));
      validateChain(parseChain(ders), { bundleFor: () => bundle }, nowMs);
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

/**
 * Whatever both can read, both must read alike: a certificate that is one thing to us and another to
 * every TLS library could be used between the two.
 */
function compareWithOpenSsl({ der, extensions, notBeforeMs, notAfterMs }: Certificate): void {
  let other: X509Certificate;
  try {
    other = new X509Certificate(der);
  } catch {
    return;
  }
  const differs = (what: string): never => {
    throw new Error(`OpenSSL reads another ${what}`);
  };
  if (other.ca && extensions.basicConstraints?.ca !== true) differs('cA');
  if (other.validFromDate.getTime() !== notBeforeMs) differs('beginning');
  if (other.validToDate.getTime() !== notAfterMs) differs('end');
  const { uris = [] } = extensions.subjectAlternativeName ?? {};
  // Node quotes what could be taken for several names.
  const plain = uris.filter((uri) => /^[A-Za-z0-9:/._-]+$/.test(uri));
  const names = (other.subjectAltName ?? '').split(', ');
  if (plain.some((uri) => !names.includes(`URI:${uri}`))) differs('URI');
  const count = names.filter((name) => name.startsWith('URI:')).length;
  if (count !== uris.length) differs('number of URIs');
}
