import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../../clock/system.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import { hasCode } from '../../errors/error.ts';
import { maxTtlSeconds } from './phases.ts';
import { type IssuedSvid, SiteAuthority } from './authority.ts';
import { Certificate } from '../x509/certificate.ts';
import { generateEd25519, generateP256, PublicKey } from '../x509/keys.ts';
import { parseChain, validateChain } from '../x509/svid-validator.ts';
import { MemoryVault, testSite } from './test-vault.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const publicKey = PublicKey.of(await generateP256(new SeededRandom('leaf')));
const web = SpiffeId.parse('spiffe://lubeck.example/web');

const believe = (authority: SiteAuthority, svid: IssuedSvid, nowMs: number): string =>
  validateChain(
    parseChain(svid.chain),
    { bundleFor: (asked) => (asked.equals(authority.trustDomain) ? authority.bundle : undefined) },
    nowMs,
  ).id.toString();

test('the first start makes the root, and later ones load it', async () => {
  const site = await testSite();
  const again = await SiteAuthority.open({ trustDomain: lubeck, ...site });
  assert.equal(site.vault.created, 1);
  assert.equal(again.bundle.hash, site.authority.bundle.hash);
  assert.equal(again.certificate.extensions.subjectAlternativeName?.uris[0], lubeck.id);
});

test('of two that start at once, both go on with the same root', async () => {
  const vault = new MemoryVault();
  const open = (seed: string): Promise<SiteAuthority> =>
    SiteAuthority.open({
      trustDomain: lubeck,
      vault,
      clock: new VirtualClock(),
      random: new SeededRandom(seed),
    });
  const [one, other] = await Promise.all([open('one'), open('other')]);
  assert.equal(vault.created, 1);
  assert.equal(one.bundle.hash, other.bundle.hash);
});

test('a data folder of another trust domain is refused by name', async () => {
  const site = await testSite();
  await assert.rejects(
    SiteAuthority.open({ ...site, trustDomain: TrustDomain.parse('bruges.example') }),
    (caught) => hasCode(caught, 'HANSA_CONFIG_INVALID') && /belongs to lubeck/.test(caught.message),
  );
});

for (const [what, code, spoil] of [
  ['is not JSON', 'HANSA_STORE_CORRUPT', () => 'secret nonsense'],
  ['is a list', 'HANSA_STORE_CORRUPT', () => '[]'],
  [
    'has no active authority',
    'HANSA_STORE_CORRUPT',
    (text: string) => text.replace('"active"', '"old"'),
  ],
  [
    'has an unknown state',
    'HANSA_STORE_CORRUPT',
    (text: string) => text.replace('"active"', '"odd"'),
  ],
  [
    'is of a newer version',
    'HANSA_STORE_NEWER',
    (text: string) => text.replace('"version":2', '"version":3'),
  ],
  [
    'has a broken key',
    'HANSA_SEAL_BROKEN',
    (text: string) => text.replace('"privateKey":"M', '"privateKey":"A'),
  ],
] as const) {
  test(`a record that ${what} is refused without being shown (${code})`, async () => {
    const site = await testSite();
    const text = spoil(String(site.vault.record));
    site.vault.record = Buffer.from(text);
    const { privateKey = 'secret' } =
      /"privateKey":"(?<privateKey>[^"]*)"/.exec(text)?.groups ?? {};
    await assert.rejects(
      SiteAuthority.open({ trustDomain: lubeck, ...site }),
      (caught) =>
        hasCode(caught, code) && caught.cause === undefined && !caught.message.includes(privateKey),
    );
  });
}

test('a key that is not that of the certificate is refused', async () => {
  const site = await testSite();
  const other = await testSite('bruges.example');
  const record = JSON.parse(String(site.vault.record));
  record.x509[0].privateKey = JSON.parse(String(other.vault.record)).x509[0].privateKey;
  site.vault.record = Buffer.from(JSON.stringify(record));
  await assert.rejects(SiteAuthority.open({ trustDomain: lubeck, ...site }), (caught) =>
    hasCode(caught, 'HANSA_STORE_CORRUPT'),
  );
});

test('issued SVIDs are believed by our validator', async () => {
  const { authority, clock } = await testSite();
  const svid = await authority.issue({ spiffeId: web, publicKey });
  assert.equal(believe(authority, svid, clock.now()), web.toString());
});

test('an SVID lives an hour by default, and begins a minute ago for slow clocks', async () => {
  const { authority, clock } = await testSite();
  await clock.advance(3_600_500);
  const svid = await authority.issue({ spiffeId: web, publicKey });
  const nowMs = Math.floor(clock.now() / 1000) * 1000;
  assert.equal(svid.notAfterMs, nowMs + maxTtlSeconds * 1000);
  assert.equal(svid.notBeforeMs, nowMs - 60_000);
});

test('an SVID never outlives its authority, nor is issued before or after it', async () => {
  const site = await testSite('lubeck.example', { rootTtlSeconds: 7200 });
  const { authority, clock } = site;
  const early = await SiteAuthority.open({
    ...site,
    trustDomain: authority.trustDomain,
    clock: new VirtualClock(clock.now() - 3_600_000),
  });
  await assert.rejects(
    early.issue({ spiffeId: web, publicKey }),
    (caught) => hasCode(caught, 'HANSA_UNAVAILABLE') && /Check the clock/.test(caught.message),
  );
  await clock.advance(5_400_000);
  const svid = await authority.issue({ spiffeId: web, publicKey });
  assert.equal(svid.notAfterMs, authority.certificate.notAfterMs);
  await clock.advance(1_800_000);
  await assert.rejects(
    authority.issue({ spiffeId: web, publicKey }),
    (caught) => hasCode(caught, 'HANSA_UNAVAILABLE') && /is valid from .* to /.test(caught.message),
  );
});

for (const ttlSeconds of [0, -1, maxTtlSeconds + 1, Number.NaN, Number.POSITIVE_INFINITY]) {
  test(`a life of ${ttlSeconds} seconds is refused`, async () => {
    const { authority } = await testSite();
    await assert.rejects(authority.issue({ spiffeId: web, publicKey, ttlSeconds }), (caught) =>
      hasCode(caught, 'HANSA_BAD_REQUEST'),
    );
  });
}

test('nothing below /hansa can be had but from its own issuer', async () => {
  const { authority } = await testSite();
  const segment = fc.stringMatching(/^[a-zA-Z0-9_-]{1,8}$/);
  await fc.assert(
    fc.asyncProperty(fc.array(segment, { maxLength: 3 }), async (segments) => {
      const spiffeId = SpiffeId.of(lubeck, 'hansa', ...segments);
      await assert.rejects(authority.issue({ spiffeId, publicKey }), (caught) =>
        hasCode(caught, 'HANSA_FORBIDDEN'),
      );
    }),
    { numRuns: 50 },
  );
});

test('a path that only begins with the same letters is not reserved', async () => {
  const { authority } = await testSite();
  const spiffeId = SpiffeId.parse('spiffe://lubeck.example/hansard');
  assert.equal((await authority.issue({ spiffeId, publicKey })).id.path, '/hansard');
});

for (const [what, id] of [
  ['an identity of another trust domain', 'spiffe://bruges.example/web'],
  ['the identity of the trust domain itself', 'spiffe://lubeck.example'],
] as const) {
  test(`${what} is not issued`, async () => {
    const { authority } = await testSite();
    await assert.rejects(authority.issue({ spiffeId: SpiffeId.parse(id), publicKey }), (caught) =>
      hasCode(caught, 'HANSA_BAD_REQUEST'),
    );
  });
}

test('each reserved issuer gives names below its own prefix only', async () => {
  const { authority } = await testSite();
  for (const role of ['agent', 'bot', 'user', 'child'] as const) {
    const svid = await authority.reservedIssuer(role).issue('ada', { publicKey });
    assert.equal(svid.id.path, `/hansa/${role}/ada`);
  }
  const users = authority.reservedIssuer('user');
  for (const name of ['', '..', '.', 'a/b', '../agent/a', 'a b', 'ä', 'a@b', '/']) {
    await assert.rejects(users.issue(name, { publicKey }), (caught) =>
      hasCode(caught, 'HANSA_BAD_REQUEST'),
    );
  }
});

test('serial numbers are positive, of one length, and never the same', async () => {
  const { authority } = await testSite();
  const issued = await Promise.all(
    Array.from({ length: 200 }, () => authority.issue({ spiffeId: web, publicKey })),
  );
  const serials = issued.map(({ serialHex }) => serialHex);
  assert.equal(new Set(serials).size, serials.length);
  for (const { chain, serialHex } of issued) {
    assert.match(serialHex, /^[4-7][0-9a-f]{31}$/);
    assert.equal(Certificate.parse(chain[0] as Buffer).serialHex, serialHex);
  }
});

test('with Ed25519 and a seed, every run issues the same bytes', async () => {
  const run = async (): Promise<Buffer | undefined> => {
    const { authority } = await testSite('lubeck.example', { generateKey: generateEd25519 });
    return (await authority.issue({ spiffeId: web, publicKey })).chain[0];
  };
  assert.deepEqual(await run(), await run());
});

test('a prepared authority is published at once, signs nothing, and is there after a restart', async () => {
  const vault = new MemoryVault();
  const options = { trustDomain: lubeck, vault, clock: systemClock, random: systemRandom };
  const authority = await SiteAuthority.open(options);
  const before = authority.bundle;
  const signing = authority.certificate.fingerprint;
  const made = await authority.prepare('x509', () => []);
  assert.notEqual(authority.bundle, before);
  assert.deepEqual(
    authority.bundle.authorities.map(({ fingerprint }) => fingerprint),
    [signing, made.id],
  );
  assert.equal(authority.certificate.fingerprint, signing);
  const again = await SiteAuthority.open(options);
  assert.equal(again.bundle.hash, authority.bundle.hash);
  assert.equal(again.certificate.fingerprint, signing);
});

test('one authority is prepared at a time, also where two ask at once', async () => {
  const { authority } = await testSite();
  const outcomes = await Promise.allSettled([
    authority.prepare('x509', () => []),
    authority.prepare('x509', () => []),
  ]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected'],
  );
  assert.equal(authority.bundle.authorities.length, 2);
});

test('an authority that could not be written is not published', async () => {
  const vault = new MemoryVault();
  const authority = await SiteAuthority.open({
    trustDomain: lubeck,
    vault,
    clock: systemClock,
    random: systemRandom,
  });
  const { bundle } = authority;
  vault.replace = () => Promise.reject(new Error('the disk is full'));
  await assert.rejects(
    authority.prepare('x509', () => []),
    /the disk is full/,
  );
  assert.equal(authority.bundle, bundle);
});
