import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { systemClock, systemRandom } from '../../clock/system.ts';
import { hasCode } from '../../errors/error.ts';
import { SiteAuthority } from './authority.ts';
import { exportPkcs8, generateP256, PublicKey } from '../x509/keys.ts';
import { certificatePem, privateKeyPem } from '../x509/pem.ts';
import { parseChain, validateChain } from '../x509/svid-validator.ts';
import { extension, forge, type Forged, type ForgeOptions } from '../x509/test-forge.ts';
import { MemoryVault } from './test-vault.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const web = SpiffeId.parse('spiffe://lubeck.example/web');
const publicKey = PublicKey.of(await generateP256(new SeededRandom('leaf')));

const authorityOf = (issuer?: Forged, options: ForgeOptions = {}): Forged =>
  forge({ ...(issuer === undefined ? {} : { issuer }), ca: true, ...options });

interface Given {
  readonly certificates: readonly Forged[];
  readonly keyText?: string;
  readonly roots?: readonly Forged[];
}

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-upstream-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

const pemOf = (forged: readonly Forged[]): string =>
  forged.map(({ der }) => certificatePem(der)).join('');

const keyTextOf = ({ key }: Forged): string => privateKeyPem(exportPkcs8(key));

function openUnder(
  folder: string,
  { certificates, keyText, roots }: Given,
  vault = new MemoryVault(),
): Promise<SiteAuthority> {
  const certFile = join(folder, 'upstream.pem');
  const keyFile = join(folder, 'upstream.key');
  const bundleFile = join(folder, 'roots.pem');
  writeFileSync(certFile, pemOf(certificates));
  writeFileSync(
    keyFile,
    keyText ?? (certificates[0] === undefined ? '' : keyTextOf(certificates[0])),
  );
  if (roots !== undefined) writeFileSync(bundleFile, pemOf(roots));
  return SiteAuthority.open({
    trustDomain: lubeck,
    vault,
    clock: systemClock,
    random: systemRandom,
    upstream: { certFile, keyFile, bundleFile: roots === undefined ? undefined : bundleFile },
  });
}

test('the site signs with an intermediate of the upstream authority, and publishes its root', async (t) => {
  const root = authorityOf();
  const authority = await openUnder(folderOf(t), { certificates: [root] });
  assert.deepEqual(
    authority.bundle.authorities.map(({ fingerprint }) => fingerprint),
    [root.certificate.fingerprint],
  );
  const { extensions } = authority.certificate;
  assert.deepEqual(extensions.basicConstraints, { critical: true, ca: true, pathLength: 0 });
  assert.deepEqual(extensions.subjectAlternativeName?.uris, [lubeck.id]);
  const svid = await authority.issue({ spiffeId: web, publicKey });
  assert.equal(svid.chain.length, 2);
  assert.deepEqual(svid.chain[1], authority.certificate.der);
  const { id } = validateChain(
    parseChain(svid.chain),
    { bundleFor: () => authority.bundle },
    Date.now(),
  );
  assert.equal(id.toString(), web.toString());
});

test('a rotation keeps the root, and the chain of what is issued changes', async (t) => {
  const root = authorityOf();
  const authority = await openUnder(folderOf(t), { certificates: [root] });
  const issuerOf = async (): Promise<Buffer | undefined> =>
    (await authority.issue({ spiffeId: web, publicKey })).chain[1];
  const before = await issuerOf();
  const { hash } = authority.bundle;
  await authority.prepare('x509', () => []);
  await authority.activate('x509', undefined, () => []);
  assert.notDeepEqual(await issuerOf(), before);
  assert.equal(authority.bundle.hash, hash);
});

test('of what is below the root, only what this site signed is its own', async (t) => {
  const root = authorityOf();
  const authority = await openUnder(folderOf(t), { certificates: [root] });
  const believe = (chain: readonly Buffer[]) =>
    validateChain(parseChain(chain), { bundleFor: () => authority.bundle }, Date.now()).id;
  const other = authorityOf(root);
  const admin = forge({ issuer: other, uris: ['spiffe://lubeck.example/hansa/user/admin'] });
  assert.throws(() => believe([admin.der, other.der]), { message: /unknown-authority/ });
  const before = await authority.issue({ spiffeId: web, publicKey });
  const { bundle } = authority;
  await authority.replaceAtOnce('x509', { fresh: true }, () => []);
  assert.throws(() => believe(before.chain), { message: /not or no longer an authority/ });
  assert.notEqual(authority.bundle, bundle, 'who remembers a verdict asks again');
  assert.equal(authority.bundle.hash, bundle.hash, 'others are told the same');
  const after = await authority.issue({ spiffeId: web, publicKey });
  assert.equal(believe(after.chain).toString(), web.toString());
});

test('what could not be published is not written either', async (t) => {
  const folder = folderOf(t);
  const root = authorityOf();
  const vault = new MemoryVault();
  const authority = await openUnder(folder, { certificates: [root], roots: [root] }, vault);
  const rootsFile = join(folder, 'roots.pem');
  const rotate = async (): Promise<void> => {
    writeFileSync(rootsFile, pemOf([root, ...Array.from({ length: 15 }, () => authorityOf())]));
    await authority.prepare('x509', () => []);
    await authority.activate('x509', undefined, () => []);
  };
  for (let times = 0; times < 4; times++) await rotate();
  const before = String(vault.record);
  await assert.rejects(rotate(), RangeError);
  assert.equal(String(vault.record), before);
});

test('the upstream key is never in the record', async (t) => {
  const root = authorityOf();
  const vault = new MemoryVault();
  await openUnder(folderOf(t), { certificates: [root] }, vault);
  const secret = exportPkcs8(root.key).toString('base64');
  assert.ok(!String(vault.record).includes(secret));
});

test('an authority never outlives what is above it', async (t) => {
  const ends = Math.floor(Date.now() / 1000) * 1000 + 10 * 86_400_000;
  const root = authorityOf(undefined, { notAfterMs: ends });
  const authority = await openUnder(folderOf(t), { certificates: [root] });
  assert.equal(authority.certificate.notAfterMs, ends);
});

test('RSA and P-384 authorities above the site are taken', async (t) => {
  for (const key of [
    generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
    generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).privateKey,
  ]) {
    const root = authorityOf(undefined, {
      key,
      algorithm: key.asymmetricKeyType === 'rsa' ? 'rsa-sha256' : 'ecdsa-sha384',
    });
    const authority = await openUnder(folderOf(t), { certificates: [root] });
    const svid = await authority.issue({ spiffeId: web, publicKey });
    validateChain(parseChain(svid.chain), { bundleFor: () => authority.bundle }, Date.now());
  }
});

/** RFC 5280 §4.2.1.10: permitted names below .other.example. */
const nameConstraints = extension(
  '551d1e',
  true,
  Buffer.from('3014a0123010820e2e6f746865722e6578616d706c65', 'hex'),
);

const soon = (ms: number): number => Math.floor((Date.now() + ms) / 1000) * 1000;

for (const [what, words, given] of [
  [
    'expired',
    /valid only until/,
    () => ({ certificates: [authorityOf(undefined, { notAfterMs: soon(-60_000) })] }),
  ],
  [
    'expires within the hour',
    /too short/,
    () => ({ certificates: [authorityOf(undefined, { notAfterMs: soon(600_000) })] }),
  ],
  [
    'is not valid yet',
    /not-yet-valid/,
    () => ({ certificates: [authorityOf(undefined, { notBeforeMs: soon(86_400_000) })] }),
  ],
  ['is no CA', /signing-is-ca/, () => ({ certificates: [authorityOf(undefined, { ca: false })] })],
  [
    'may not sign certificates',
    /keyCertSign/,
    () => ({ certificates: [authorityOf(undefined, { keyUsage: 1 })] }),
  ],
  [
    'allows nothing that signs below it',
    /path-length/,
    () => ({ certificates: [authorityOf(undefined, { pathLength: 0 })] }),
  ],
  [
    'has name constraints',
    /name-constraints/,
    () => ({ certificates: [authorityOf(undefined, { extra: [nameConstraints] })] }),
  ],
  [
    'is the authority of another trust domain',
    /trust-domain/,
    () => {
      const root = authorityOf();
      return {
        certificates: [authorityOf(root, { uris: ['spiffe://bruges.example'] })],
        roots: [root],
      };
    },
  ],
  [
    'has another key',
    /does not match its first certificate/,
    () => ({ certificates: [authorityOf()], keyText: keyTextOf(authorityOf()) }),
  ],
  [
    'has no key file that can be read',
    /no private key in PEM/,
    () => ({ certificates: [authorityOf()], keyText: 'nonsense' }),
  ],
  [
    'has a key of no allowed kind',
    /neither RSA nor Ed25519/,
    () => ({
      certificates: [authorityOf()],
      keyText: privateKeyPem(exportPkcs8(generateKeyPairSync('x25519').privateKey)),
    }),
  ],
  [
    'has no root above it',
    /contains no root/,
    () => ({ certificates: [authorityOf(authorityOf())] }),
  ],
  [
    'has the wrong root above it',
    /unknown-authority/,
    () => ({ certificates: [authorityOf(authorityOf())], roots: [authorityOf()] }),
  ],
  [
    'has a chain with a gap',
    /unknown-authority/,
    () => {
      const root = authorityOf();
      return { certificates: [authorityOf(authorityOf(root)), authorityOf(root)], roots: [root] };
    },
  ],
  [
    'stands below too short a path',
    /path-length/,
    () => {
      const root = authorityOf(undefined, { pathLength: 1 });
      return { certificates: [authorityOf(root)], roots: [root] };
    },
  ],
  ['is an empty file', /no certificate in PEM/, () => ({ certificates: [] })],
  [
    'has an empty file of roots',
    /no certificate in PEM/,
    () => ({ certificates: [authorityOf()], roots: [] }),
  ],
] satisfies [string, RegExp, () => Given][]) {
  test(`an upstream authority that ${what} is refused, and nothing is made`, async (t) => {
    const vault = new MemoryVault();
    await assert.rejects(
      openUnder(folderOf(t), given(), vault),
      (caught) => hasCode(caught, 'HANSA_CONFIG_INVALID') && words.test(caught.message),
    );
    assert.equal(vault.record, undefined);
  });
}

test('files that are missing or too large are refused by name', async (t) => {
  const folder = folderOf(t);
  const open = (certFile: string): Promise<SiteAuthority> =>
    SiteAuthority.open({
      trustDomain: lubeck,
      vault: new MemoryVault(),
      clock: systemClock,
      random: systemRandom,
      upstream: { certFile, keyFile: certFile, bundleFile: undefined },
    });
  const missing = join(folder, 'nothing.pem');
  assert.ok(!existsSync(missing));
  await assert.rejects(open(missing), /nothing\.pem: it cannot be read/);
  const large = join(folder, 'large.pem');
  writeFileSync(large, Buffer.alloc(300_000));
  await assert.rejects(open(large), /large\.pem: it has 300000 bytes/);
});
