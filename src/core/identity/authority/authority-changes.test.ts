import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { HansaError, hasCode } from '../../errors/error.ts';
import type { AuthorityAudit } from './audit.ts';
import { type IssuedSvid, SiteAuthority } from './authority.ts';
import { generateP256, PublicKey } from '../x509/keys.ts';
import { parseChain, validateChain } from '../x509/svid-validator.ts';
import { type MemoryVault, testSite } from './test-vault.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const publicKey = PublicKey.of(await generateP256(new SeededRandom('leaf')));
const web = SpiffeId.parse('spiffe://lubeck.example/web');
const untold: AuthorityAudit = () => [];

const believe = (authority: SiteAuthority, svid: IssuedSvid, nowMs: number): string =>
  validateChain(parseChain(svid.chain), { bundleFor: () => authority.bundle }, nowMs).id.toString();

const states = (authority: SiteAuthority, kind: string): string =>
  authority.authorities
    .filter((one) => one.kind === kind)
    .map(({ state }) => state)
    .join(' ');

/** Like the store's: each holder sees its own last revision. */
function shared(vault: MemoryVault): MemoryVault {
  let seen = vault.record;
  return Object.assign(Object.create(vault) as MemoryVault, {
    load: async () => {
      seen = vault.record;
      return vault.load();
    },
    replace: async (record: Buffer, audit: never[]) => {
      if (vault.record !== seen) throw new HansaError('HANSA_CONFLICT', 'overtaken');
      await vault.replace(record, audit);
      seen = vault.record;
    },
    watch: () => () => undefined,
  });
}

test('what was issued before an activation is believed until it expires', async () => {
  const { authority, clock } = await testSite();
  const before = await authority.issue({ spiffeId: web, publicKey });
  await authority.prepare('x509', untold);
  const made = await authority.activate('x509', undefined, untold);
  assert.equal(authority.certificate.fingerprint, made.id);
  const after = await authority.issue({ spiffeId: web, publicKey });
  assert.equal(after.authorityId, made.id);
  assert.notEqual(before.authorityId, made.id);
  for (const svid of [before, after])
    assert.equal(believe(authority, svid, clock.now()), web.toString());
});

test('a tainted authority is believed still, and a revoked one no more', async () => {
  const { authority, clock } = await testSite();
  const before = await authority.issue({ spiffeId: web, publicKey });
  await authority.prepare('x509', untold);
  await authority.activate('x509', undefined, untold);
  assert.equal(authority.isTainted(before.authorityId), false);
  await authority.taint('x509', undefined, untold);
  assert.equal(authority.isTainted(before.authorityId), true);
  assert.equal(believe(authority, before, clock.now()), web.toString());
  await authority.revoke('x509', undefined, untold);
  assert.equal(authority.isTainted(before.authorityId), true);
  assert.throws(
    () => believe(authority, before, clock.now()),
    (caught) => hasCode(caught, 'HANSA_CERTIFICATE_INVALID'),
  );
});

test('JWT keys go the same way, and leave the X.509 authorities alone', async () => {
  const { authority } = await testSite();
  const { keyId } = authority.jwtSigner;
  const x509 = authority.certificate.fingerprint;
  assert.deepEqual([...authority.bundle.jwtAuthorities.keys()], [keyId]);
  const made = await authority.prepare('jwt', untold);
  assert.deepEqual([...authority.bundle.jwtAuthorities.keys()], [keyId, made.id]);
  assert.equal(authority.jwtSigner.keyId, keyId);
  await authority.activate('jwt', made.id, untold);
  assert.equal(authority.jwtSigner.keyId, made.id);
  assert.equal(authority.jwtSigner.signer.publicKey.keyId.toString('hex'), made.id);
  await authority.taint('jwt', undefined, untold);
  await authority.revoke('jwt', undefined, untold);
  assert.deepEqual([...authority.bundle.jwtAuthorities.keys()], [made.id]);
  assert.equal(authority.certificate.fingerprint, x509);
});

test('every step is told to the audit log with the commit that takes it', async () => {
  const { authority, vault } = await testSite();
  const told: string[] = [];
  const audit: AuthorityAudit = (steps) => {
    told.push(steps.map(({ kind, verb, id }) => `${kind} ${verb} ${id.length}`).join(', '));
    return [];
  };
  await authority.prepare('x509', audit);
  await authority.replaceAtOnce('x509', { fresh: false }, audit);
  await authority.replaceAtOnce('jwt', { fresh: true }, audit);
  assert.deepEqual(told, [
    'x509 prepare 64',
    'x509 activate 64, x509 taint 64, x509 revoke 64',
    'jwt prepare 40, jwt activate 40, jwt taint 40, jwt revoke 40',
  ]);
  assert.equal(vault.audited.length, 3);
});

test('listeners hear of every durable change, and of no other', async () => {
  const { authority, vault } = await testSite();
  let heard = 0;
  const stop = authority.onChange(() => heard++);
  await authority.prepare('x509', untold);
  await assert.rejects(authority.prepare('x509', untold));
  assert.equal(heard, 1);
  const replace = vault.replace.bind(vault);
  vault.replace = () => Promise.reject(new Error('the disk is full'));
  await assert.rejects(authority.activate('x509', undefined, untold), /disk is full/);
  assert.equal(heard, 1);
  assert.equal(states(authority, 'x509'), 'active prepared');
  vault.replace = replace;
  stop();
  await authority.activate('x509', undefined, untold);
  assert.equal(heard, 1);
});

test('a taint leaves the bundle the very same', async () => {
  const { authority } = await testSite();
  await authority.prepare('x509', untold);
  await authority.activate('x509', undefined, untold);
  const { bundle } = authority;
  await authority.taint('x509', undefined, untold);
  assert.equal(authority.bundle, bundle);
});

test('a replica that was overtaken takes its step from what the other wrote', async () => {
  const site = await testSite();
  const options = { trustDomain: lubeck, clock: site.clock };
  const one = await SiteAuthority.open({
    ...options,
    vault: shared(site.vault),
    random: new SeededRandom(1),
  });
  const other = await SiteAuthority.open({
    ...options,
    vault: shared(site.vault),
    random: new SeededRandom(2),
  });
  const made = await one.prepare('x509', untold);
  // The other has not heard of it, and finds out.
  await assert.rejects(other.prepare('x509', untold), (caught) =>
    hasCode(caught, 'HANSA_ALREADY_EXISTS'),
  );
  assert.equal(other.bundle.hash, one.bundle.hash);
  assert.equal((await other.activate('x509', undefined, untold)).id, made.id);
  await one.prepare('jwt', untold);
  assert.equal(one.certificate.fingerprint, made.id);
  await other.reload();
  assert.equal(other.bundle.hash, one.bundle.hash);
});

test('what a newer version wrote is never overwritten', async () => {
  const site = await testSite();
  const one = await SiteAuthority.open({ ...site, trustDomain: lubeck, vault: shared(site.vault) });
  const newer = { ...JSON.parse(String(site.vault.record)), version: 3 };
  site.vault.record = Buffer.from(JSON.stringify(newer));
  assert.equal(one.problem, undefined);
  await assert.rejects(one.reload(), (caught) => hasCode(caught, 'HANSA_STORE_NEWER'));
  assert.match(one.problem ?? '', /Start the newer version/);
  await assert.rejects(one.prepare('x509', untold), (caught) =>
    hasCode(caught, 'HANSA_STORE_NEWER'),
  );
  assert.deepEqual(JSON.parse(String(site.vault.record)), newer);
});

test('what another replica wrote is adopted when the vault tells of it', async () => {
  const site = await testSite();
  const other = await SiteAuthority.open({
    ...site,
    trustDomain: lubeck,
    random: new SeededRandom(2),
  });
  const heard = new Promise<void>((resolve) => other.onChange(resolve));
  await site.authority.prepare('x509', untold);
  await heard;
  assert.equal(other.bundle.hash, site.authority.bundle.hash);
});

test('a private key that signs no more is not kept', async () => {
  const { authority, vault } = await testSite();
  await authority.prepare('x509', untold);
  await authority.activate('x509', undefined, untold);
  await authority.prepare('jwt', untold);
  await authority.activate('jwt', undefined, untold);
  const { x509, jwt } = JSON.parse(String(vault.record));
  assert.deepEqual(
    [...x509, ...jwt].map(({ state, privateKey }) => [state, privateKey === undefined]),
    [
      ['old', true],
      ['active', false],
      ['old', true],
      ['active', false],
    ],
  );
});

test('a record of version 1 is taken over: the same root, and a first JWT key, once', async () => {
  const site = await testSite();
  const { x509 } = JSON.parse(String(site.vault.record));
  const [{ certificate, privateKey }] = x509;
  site.vault.record = Buffer.from(
    JSON.stringify({
      version: 1,
      trustDomain: 'lubeck.example',
      authorities: [{ state: 'active', certificate, privateKey }],
    }),
  );
  const told: string[] = [];
  const open = (): Promise<SiteAuthority> =>
    SiteAuthority.open({
      ...site,
      trustDomain: lubeck,
      audit: (steps) => {
        told.push(...steps.map(({ verb }) => verb));
        return [];
      },
    });
  const migrated = await open();
  assert.equal(migrated.certificate.fingerprint, site.authority.certificate.fingerprint);
  assert.equal(states(migrated, 'jwt'), 'active');
  assert.deepEqual(told, ['prepare', 'activate']);
  const again = await open();
  assert.equal(again.bundle.hash, migrated.bundle.hash);
  assert.equal(told.length, 2);
});

test('a start under a clock years ahead changes nothing, and the site goes on when it is right', async () => {
  const site = await testSite();
  await site.authority.prepare('x509', untold);
  const record = String(site.vault.record);
  const { hash } = site.authority.bundle;
  const ahead = 9 * 365 * 86_400_000;
  site.clock.jumpWall(ahead);
  for (const clockTrustedUntilMs of [undefined, site.clock.now() - 1]) {
    await assert.rejects(
      SiteAuthority.open({ ...site, trustDomain: lubeck, clockTrustedUntilMs }),
      {
        code: 'HANSA_CLOCK_DOUBTFUL',
        message: /^Cannot start: the clock says .* --ca-clock-trusted-until \d{4}-\d\d-\d\dT/,
      },
    );
  }
  assert.equal(String(site.vault.record), record);
  site.clock.jumpWall(-ahead);
  const again = await SiteAuthority.open({ ...site, trustDomain: lubeck });
  assert.equal(again.bundle.hash, hash);
});

test('authorities of a short life that expired while a site was down are replaced without asking', async () => {
  const site = await testSite('lubeck.example', { rootTtlSeconds: 86_400 });
  const before = site.authority.certificate.fingerprint;
  await site.clock.advance(4 * 86_400_000);
  const again = await SiteAuthority.open({ ...site, trustDomain: lubeck });
  assert.notEqual(again.certificate.fingerprint, before);
});

test('a site whose authorities expired while it was down starts with new ones where the clock is trusted', async () => {
  const site = await testSite();
  const before = site.authority.certificate.fingerprint;
  await site.clock.advance(91 * 86_400_000);
  const again = await SiteAuthority.open({
    ...site,
    trustDomain: lubeck,
    clockTrustedUntilMs: site.clock.now(),
  });
  assert.notEqual(again.certificate.fingerprint, before);
  const svid = await again.issue({ spiffeId: web, publicKey });
  assert.equal(believe(again, svid, site.clock.now()), web.toString());
  assert.ok(again.jwtSigner.notAfterMs > site.clock.now());
});

test('a site that was down for long goes on with the authority that others hold already', async () => {
  const site = await testSite();
  await site.clock.advance(45 * 86_400_000);
  const { id } = await site.authority.prepare('x509', untold);
  await site.clock.advance(46 * 86_400_000);
  const again = await SiteAuthority.open({ ...site, trustDomain: lubeck });
  assert.equal(again.certificate.fingerprint, id);
  assert.equal(states(again, 'x509'), 'active');
});

test('an emergency after the clock was set back takes no authority from the future', async () => {
  const site = await testSite();
  await site.authority.prepare('x509', untold);
  site.clock.jumpWall(-86_400_000);
  await assert.rejects(site.authority.issue({ spiffeId: web, publicKey }), /Check the clock/);
  await site.authority.replaceAtOnce('x509', { fresh: false }, untold);
  const svid = await site.authority.issue({ spiffeId: web, publicKey });
  assert.equal(believe(site.authority, svid, site.clock.now()), web.toString());
});

interface Spoiled {
  readonly x509: [Record<string, unknown>, ...Record<string, unknown>[]];
  readonly jwt: [Record<string, unknown>];
}

for (const [what, spoil] of [
  ['has no active JWT key', ({ jwt }) => (jwt[0]['state'] = 'old')],
  ['has a JWT key of another name', ({ jwt }) => (jwt[0]['id'] = 'other')],
  [
    'has a prepared one without a key',
    ({ x509 }) => x509.push({ ...x509[0], state: 'prepared', privateKey: undefined }),
  ],
  ['has no roots', ({ x509 }) => (x509[0]['roots'] = [])],
  ['has no times', ({ x509 }) => delete x509[0]['preparedAtMs']],
  ['has a broken public key', ({ jwt }) => (jwt[0]['publicKey'] = 'AAAA')],
] satisfies [string, (record: Spoiled) => unknown][]) {
  test(`a record that ${what} is refused (HANSA_STORE_CORRUPT)`, async () => {
    const site = await testSite();
    const record = JSON.parse(String(site.vault.record)) as Spoiled;
    spoil(record);
    site.vault.record = Buffer.from(JSON.stringify(record));
    await assert.rejects(SiteAuthority.open({ trustDomain: lubeck, ...site }), (caught) =>
      hasCode(caught, 'HANSA_STORE_CORRUPT'),
    );
  });
}

for (const keyType of ['ec-p256', 'ec-p384', 'rsa-2048', 'rsa-3072'] as const) {
  test(`authorities with keys of ${keyType} issue what our validator believes, also after a restart`, async () => {
    const site = await testSite('lubeck.example', { keyType, jwtKeyType: keyType });
    const again = await SiteAuthority.open({ trustDomain: lubeck, ...site });
    for (const authority of [site.authority, again]) {
      const svid = await authority.issue({ spiffeId: web, publicKey });
      assert.equal(believe(authority, svid, site.clock.now()), web.toString());
      const { algorithm } = authority.jwtSigner.signer;
      assert.match(algorithm, keyType.startsWith('rsa') ? /^rsa-sha256/ : /^ecdsa-/);
    }
  });
}
