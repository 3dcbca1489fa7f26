// Fuzz targets for the documents of clusters: key sets and OpenID configurations. The parser of key
// sets throws a TypeError, which its caller converts into a HansaError.

import { readConfiguration } from '../../../src/auth/keys/discover-keys.ts';
import { keySetOf, readJwks } from '../../../src/auth/keys/jwks.ts';
import { HansaError } from '../../../src/core/errors/error.ts';
import type { Target } from '../target.ts';

const words = [
  'keys',
  'kty',
  'RSA',
  'EC',
  'OKP',
  'oct',
  'use',
  'sig',
  'enc',
  'alg',
  'RS256',
  'ES512',
  'PS384',
  'HS256',
  'none',
  'key_ops',
  'verify',
  'kid',
  '__proto__',
  'crv',
  'P-256',
  'P-384',
  'P-521',
  'secp256k1',
  'x',
  'y',
  'n',
  'e',
  'AQAB',
  'AQ',
  'd',
  'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
  'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
  'issuer',
  'jwks_uri',
  'https://issuer.example',
  'https://issuer.example/keys',
  'http://issuer.example/keys',
  'https://user@issuer.example/',
  'https://[::1/',
  '\u001b[2J',
];

export const clusterTargets: readonly Target[] = [
  {
    name: 'cluster-jwks',
    grammar: 'json',
    dictionary: words,
    maxBytes: 140_000,
    run: (input) => {
      try {
        const { keys } = readJwks(input);
        const set = keySetOf(keys, { fetchedAtMs: 0, from: 'issuer' });
        for (const key of keys) {
          if (!set.for(key.keyId).includes(key)) throw new Error('a key is not found by its kid');
        }
      } catch (caught) {
        if (!(caught instanceof TypeError)) throw caught;
        throw new HansaError('HANSA_UNAVAILABLE', caught.message);
      }
    },
  },
  {
    name: 'cluster-openid-configuration',
    grammar: 'json',
    dictionary: words,
    maxBytes: 70_000,
    run: (input) => {
      const { jwksURL } = readConfiguration(input, 'https://issuer.example', 'The issuer');
      if (jwksURL.protocol !== 'https:') throw new Error('the keys are not at an https URL');
    },
  },
];
