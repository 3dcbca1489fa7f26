import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { hasCode } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { readBundle } from './join-server.ts';

test('a bundle by which no connection could be verified is refused, before it takes the place of one', () => {
  const lubeck = TrustDomain.parse('lubeck.example');
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const document = encodeSpiffeBundle(new Bundle(lubeck, [], [{ keyId: 'a', publicKey }]), {
    sequence: 1,
    refreshHintSeconds: 300,
  });
  assert.throws(
    () => readBundle(document, lubeck, 'lubeck.json'),
    (error) => hasCode(error, 'HANSA_BUNDLE_INVALID') && /no X\.509 authority/.test(error.message),
  );
});
