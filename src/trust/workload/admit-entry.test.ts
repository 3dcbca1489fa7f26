import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrustDomain } from '../../api/trust-domain.ts';
import { type ErrorCode, hasCode } from '../../core/errors/error.ts';
import { admitEntry } from './admit-entry.ts';

const lubeck = TrustDomain.parse('lubeck.example');

function admit(spiffeID: string): void {
  const metadata = { name: 'web' } as Parameters<typeof admitEntry>[0]['metadata'];
  admitEntry(
    { metadata, spec: { spiffeID, selectors: ['unix:uid:1000'], federatesWith: [] } },
    lubeck,
  );
}

test('an entry of our own trust domain is taken', () => {
  admit('spiffe://lubeck.example/web');
  admit('spiffe://lubeck.example/hansard');
});

// Forbidden and not merely invalid: what is forbidden is in the audit log.
for (const [spiffeID, code] of [
  ['spiffe://lubeck.example/hansa', 'HANSA_FORBIDDEN'],
  ['spiffe://lubeck.example/hansa/site', 'HANSA_FORBIDDEN'],
  ['spiffe://lubeck.example/hansa/user/admin', 'HANSA_FORBIDDEN'],
  ['spiffe://bruges.example/web', 'HANSA_INVALID'],
] as const satisfies readonly (readonly [string, ErrorCode])[]) {
  test(`an entry for ${spiffeID} is refused with ${code}`, () => {
    assert.throws(
      () => admit(spiffeID),
      (error) => hasCode(error, code),
    );
  });
}
