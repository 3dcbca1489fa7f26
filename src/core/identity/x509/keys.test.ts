import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { test } from 'node:test';
import type { Random } from '../../clock/clock.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { hasCode } from '../../errors/error.ts';
import {
  exportPkcs8,
  generateEd25519,
  generateKeyOf,
  generateP256,
  generateP384,
  importPkcs8,
  PublicKey,
} from './keys.ts';
import { brokenRule } from './rules.ts';
import { LocalSigner } from './signer.ts';

test('the same seed gives the same keys, and another seed others', async () => {
  for (const generate of [generateP256, generateP384, generateEd25519]) {
    const one = await generate(new SeededRandom('a'));
    const same = await generate(new SeededRandom('a'));
    const other = await generate(new SeededRandom('b'));
    assert.ok(one.equals(same));
    assert.ok(!one.equals(other));
  }
});

test('scalars that are no P-256 key are drawn again', async () => {
  const draws = [
    Buffer.alloc(32),
    Buffer.alloc(32, 0xff),
    Buffer.from('ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551', 'hex'),
    Buffer.from('ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550', 'hex'),
  ];
  const random: Random = {
    bytes: async () => draws.shift() as Buffer,
    unit: () => 0,
    uuid: () => '',
  };
  const key = await generateP256(random);
  assert.equal(draws.length, 0);
  // n - 1 is the base point's negative: its x is that of the base point.
  const { x } = createPublicKey(key).export({ format: 'jwk' });
  assert.equal(
    Buffer.from(x as string, 'base64url').toString('hex'),
    '6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296',
  );
});

test('a generated key signs, and its public half verifies', async () => {
  for (const generate of [generateP256, generateEd25519]) {
    const key = await generate(new SeededRandom(1));
    const signer = new LocalSigner(key);
    const signature = await signer.sign(Buffer.from('text'));
    const digest = signer.algorithm === 'ed25519' ? null : 'sha256';
    assert.ok(verify(digest, Buffer.from('text'), createPublicKey(key), signature));
  }
});

for (const [type, algorithm, digest] of [
  ['ec-p256', 'ecdsa-sha256', 'sha256'],
  ['ec-p384', 'ecdsa-sha384', 'sha384'],
  ['rsa-2048', 'rsa-sha256', 'sha256'],
  ['rsa-3072', 'rsa-sha256', 'sha256'],
] as const) {
  test(`a key of ${type} signs by ${algorithm}, and survives export and import`, async () => {
    const key = await generateKeyOf(type, new SeededRandom(type));
    const signer = new LocalSigner(key);
    assert.equal(signer.algorithm, algorithm);
    const signature = await signer.sign(Buffer.from('text'));
    assert.ok(verify(digest, Buffer.from('text'), createPublicKey(key), signature));
    assert.ok(importPkcs8(exportPkcs8(key)).equals(key));
    const { modulusLength } = key.asymmetricKeyDetails ?? {};
    if (type.startsWith('rsa')) assert.equal(`rsa-${modulusLength}`, type);
  });
}

test('scalars that are no P-384 key are drawn again', async () => {
  const order =
    'ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973';
  const draws = [
    Buffer.alloc(48),
    Buffer.alloc(48, 0xff),
    Buffer.from(order, 'hex'),
    Buffer.from(order.replace(/3$/, '2'), 'hex'),
  ];
  const random: Random = {
    bytes: async () => draws.shift() as Buffer,
    unit: () => 0,
    uuid: () => '',
  };
  const { x } = createPublicKey(await generateP384(random)).export({ format: 'jwk' });
  assert.equal(draws.length, 0);
  // The x of the base point (SP 800-186 §3.2.1.4).
  assert.match(Buffer.from(x as string, 'base64url').toString('hex'), /^aa87ca22be8b0537/);
});

for (const type of ['ec-p256', 'ec-p384', 'rsa-2048'] as const) {
  test(`a signer with a key of ${type} signs many things at once, each as it is`, async () => {
    const key = await generateKeyOf(type, new SeededRandom('many'));
    const signer = new LocalSigner(key);
    const texts = Array.from({ length: 20 }, (_, at) => Buffer.from(`text ${at}`));
    const signatures = await Promise.all(texts.map((text) => signer.sign(text)));
    const digest = signer.algorithm === 'ecdsa-sha384' ? 'sha384' : 'sha256';
    for (const [at, signature] of signatures.entries()) {
      assert.ok(verify(digest, texts[at] as Buffer, signer.publicKey.keyObject, signature));
    }
  });
}

test('a public key that dropped its object imports it again when something verifies', async () => {
  const signer = new LocalSigner(await generateKeyOf('ec-p256', new SeededRandom('drop')));
  const text = Buffer.from('text');
  const signature = await signer.sign(text);
  const key = PublicKey.parse(signer.publicKey.spki);
  const before = key.keyObject;
  assert.equal(key.keyObject, before);
  key.dropKeyObject();
  assert.notEqual(key.keyObject, before);
  assert.ok(verify('sha256', text, key.keyObject, signature));
});

test('a signer refuses keys that an authority should not have', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'secp521r1' });
  assert.throws(() => new LocalSigner(privateKey), /use P-256, P-384, RSA or Ed25519/);
});

test('keys survive export and import', async () => {
  const key = await generateP256(new SeededRandom(2));
  assert.ok(importPkcs8(exportPkcs8(key)).equals(key));
});

test('a broken key is refused without being shown', () => {
  const secret = Buffer.from('MIGHAgEAMBMGByqGSM49');
  assert.throws(
    () => importPkcs8(secret),
    (caught) => hasCode(caught, 'HANSA_SEAL_BROKEN') && caught.cause === undefined,
  );
});

test('public keys of allowed kinds are taken', () => {
  const pairs = [
    generateKeyPairSync('ec', { namedCurve: 'prime256v1' }),
    generateKeyPairSync('ec', { namedCurve: 'secp384r1' }),
    generateKeyPairSync('ec', { namedCurve: 'secp521r1' }),
    generateKeyPairSync('ed25519'),
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ];
  const algorithms = pairs.map(
    ({ publicKey }) => PublicKey.parse(publicKey.export({ format: 'der', type: 'spki' })).algorithm,
  );
  assert.deepEqual(algorithms, ['p256', 'p384', 'p521', 'ed25519', 'rsa']);
});

for (const [what, spki] of [
  ['a small RSA key', () => generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey],
  ['a key on secp256k1', () => generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey],
  ['an X25519 key', () => generateKeyPairSync('x25519').publicKey],
  ['an RSA-PSS key', () => generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).publicKey],
] as const) {
  test(`${what} is refused`, () => {
    const der = spki().export({ format: 'der', type: 'spki' });
    assert.throws(
      () => PublicKey.parse(der),
      (caught) => brokenRule(caught) === 'public-key',
    );
  });
}

test('bytes behind a key are refused', () => {
  const { publicKey } = generateKeyPairSync('ed25519');
  const der = publicKey.export({ format: 'der', type: 'spki' });
  assert.throws(
    () => PublicKey.parse(Buffer.concat([der, Buffer.of(5, 0)])),
    (caught) => brokenRule(caught) === 'malformed-der',
  );
});

test('a point that is not on its curve is refused', () => {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const der = publicKey.export({ format: 'der', type: 'spki' });
  der[der.length - 1] = (der[der.length - 1] as number) ^ 1;
  assert.throws(
    () => PublicKey.parse(der),
    (caught) => brokenRule(caught) === 'public-key',
  );
});
