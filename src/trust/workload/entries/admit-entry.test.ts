import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { type ErrorCode, hasCode } from '../../../core/errors/error.ts';
import { admitEntry, admitNames } from './admit-entry.ts';

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

test('an entry whose selector of agents has no valid label is refused', () => {
  const metadata = { name: 'web' } as Parameters<typeof admitEntry>[0]['metadata'];
  for (const matchLabels of [{ 'a b': '' }, { '/a': '' }, { zone: 'a b' }]) {
    const spec = {
      spiffeID: 'spiffe://lubeck.example/web',
      selectors: ['unix:uid:1000'],
      federatesWith: [],
      agents: { selector: { matchLabels } },
    };
    assert.throws(
      () => admitEntry({ metadata, spec }, lubeck),
      (error) => hasCode(error, 'HANSA_INVALID') && /spec\.agents\.selector: /.test(error.message),
    );
  }
});

const siteNames = ['localhost', 'Lubeck.example', 'api.lubeck.example', '.kube-fed.svc'];

function admitDnsNames(...dnsNames: readonly string[]): void {
  const metadata = { name: 'web' } as Parameters<typeof admitNames>[0]['metadata'];
  admitNames({ metadata, spec: { dnsNames } }, siteNames);
}

test('an entry may have DNS names that are not those of the site', () => {
  admitDnsNames();
  admitDnsNames('web.lubeck.example', '*.web.lubeck.example', 'lubeck.example.org', '*.bruges');
  admitDnsNames('xkube-fed.svc', 'kube-fed.svc.example', '*.svc');
  admitNames({ metadata: { name: 'web' }, spec: {} } as never, siteNames);
});

for (const name of [
  'kube-fed.svc',
  'api.app1.kube-fed.svc',
  '*.app1.kube-fed.svc',
  'localhost',
  'lubeck.example',
  '*.lubeck.example',
  '*.example',
]) {
  test(`an entry with the DNS name ${name}, by which the site is known, is forbidden`, () => {
    assert.throws(
      () => admitDnsNames('web.lubeck.example', name),
      (error) => hasCode(error, 'HANSA_FORBIDDEN') && error.message.includes(name),
    );
  });
}

test('an entry that had a name before the site took it can be changed in other ways', () => {
  const entry = (...dnsNames: readonly string[]) =>
    ({ metadata: { name: 'web' }, spec: { dnsNames } }) as never;
  admitNames(entry('api.lubeck.example'), siteNames, entry('api.lubeck.example'));
  admitNames(entry(), siteNames, entry('api.lubeck.example'));
  assert.throws(
    () => admitNames(entry('api.lubeck.example'), siteNames, entry('web.lubeck.example')),
    (error) => hasCode(error, 'HANSA_FORBIDDEN'),
  );
});
