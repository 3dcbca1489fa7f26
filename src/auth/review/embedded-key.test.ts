import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { embeddedKeys } from './test-embedded-keys.ts';
import { encode } from './test-service-account-tokens.ts';
import { readHeader } from './token-header.ts';

suite('a header is read as go-jose reads it, if it embeds', () => {
  for (const [name, jwk, isRead] of embeddedKeys) {
    test(`${name}: ${isRead ? 'read' : 'refused'}`, () => {
      const header = readHeader(encode({ alg: 'RS256', kid: 'a', jwk }));
      assert.deepEqual(header, isRead ? { algorithm: 'RS256', keyId: 'a' } : undefined);
    });
  }
});
