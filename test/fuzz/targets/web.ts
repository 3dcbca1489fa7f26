// Fuzz targets for the web listener and https_web. The parser of ACME responses throws an
// AcmeProblem, and the parser of configured authorities a TypeError. Their callers convert both
// into a HansaError.

import { HansaError } from '../../../src/core/errors/error.ts';
import { webAuthorities } from '../../../src/core/identity/tls/web-transport.ts';
import {
  parseAuthorization,
  parseDirectory,
  parseOrder,
} from '../../../src/trust/web/acme/messages.ts';
import { AcmeProblem, parseRetryAfter, problemOf } from '../../../src/trust/web/acme/problem.ts';
import type { Target } from '../target.ts';

const words = [
  'urn:ietf:params:acme:error:rateLimited',
  'type',
  'detail',
  'subproblems',
  'status',
  'pending',
  'valid',
  'invalid',
  'ready',
  'authorizations',
  'finalize',
  'certificate',
  'identifier',
  'dns',
  'challenges',
  'http-01',
  'tls-alpn-01',
  'token',
  'url',
  'https://acme.example/',
  'http://acme.example/',
  'https://user@acme.example/',
  '\u001b[2J',
];

const answer = (name: string, parse: (body: Buffer) => unknown): Target => ({
  name,
  grammar: 'json',
  dictionary: words,
  maxBytes: 140_000,
  run: (input) => {
    try {
      parse(input);
    } catch (caught) {
      if (!(caught instanceof AcmeProblem)) throw caught;
      throw new HansaError('HANSA_UNAVAILABLE', caught.message);
    }
  },
});

export const webTargets: readonly Target[] = [
  answer('acme-directory', parseDirectory),
  answer('acme-order', parseOrder),
  answer('acme-authorization', parseAuthorization),
  answer('acme-problem', (body) => {
    const { message, retryAfterMs } = problemOf({ status: 400, headers: {}, body }, 0);
    if (message.length > 2000 || retryAfterMs !== undefined) throw new Error('it has no bound');
    // oxlint-disable-next-line no-control-regex
    if (/[\u0000-\u001f]/.test(message)) throw new Error('it can move a cursor');
  }),
  {
    name: 'retry-after',
    grammar: 'text',
    dictionary: ['120', 'Fri, 31 Dec 1999 23:59:59 GMT', '-1', '1e9', 'Infinity', 'NaN'],
    maxBytes: 200,
    run: (input) => {
      const waitMs = parseRetryAfter(input.toString('utf8'), 0);
      if (waitMs !== undefined && !(waitMs >= 0 && waitMs <= 86_400_000)) {
        throw new Error(`it waits ${waitMs} ms`);
      }
    },
  },
  {
    name: 'web-authorities',
    grammar: 'text',
    dictionary: [
      '-----BEGIN CERTIFICATE-----',
      '-----END CERTIFICATE-----',
      '-----BEGIN RSA PRIVATE KEY-----',
      '-----',
      '\r\n',
      '=',
    ],
    maxBytes: 140_000,
    run: (input) => {
      try {
        webAuthorities(input.toString('utf8'));
      } catch (caught) {
        if (!(caught instanceof TypeError) || !caught.message.startsWith('it contains')) {
          if (!/^certificate \d+ in it/.test((caught as Error).message)) throw caught;
        }
        throw new HansaError('HANSA_INVALID', (caught as Error).message);
      }
    },
  },
];
